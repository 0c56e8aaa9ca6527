// Package queue hands out keys to workers: those that people wait for first, and those
// that somebody else contests less often.
package queue

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

const (
	queueName = "deployments" // label of the workqueue_* metrics

	// A key that fails is tried again after 5 ms, 10 ms, 20 ms, … 5 minutes.
	minBackoff = 5 * time.Millisecond
	maxBackoff = 300 * time.Second

	// deferPause lets a cache see what was just written, so that it is not written twice.
	deferPause = time.Millisecond
)

// Queue is a rate-limited workqueue in two bands: a key that only waits for its
// status write is handed out when no other key waits. At a boundary, people wait
// for Pods, not for conditions.
type Queue struct {
	workqueue.TypedRateLimitingInterface[string]
	bands *bands
}

// New makes an empty queue whose timers go by clk.
func New(clk clock.WithTicker) *Queue {
	b := &bands{
		first:    workqueue.DefaultQueue[string](),
		second:   workqueue.DefaultQueue[string](),
		deferred: sets.New[string](),
	}
	// The default limiter has a bucket for all keys together as well, which would
	// make one namespace's trouble everybody's.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)
	return &Queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name:  queueName,
				Clock: clk,
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: queueName, Clock: clk, Queue: b}),
			}),
		}),
		bands: b,
	}
}

// Defer puts the key into the second band from its next Add on, until Promote.
func (q *Queue) Defer(key string) { q.bands.mark(key, true) }

// Promote puts the key back into the first band, from its next Add on.
func (q *Queue) Promote(key string) { q.bands.mark(key, false) }

// Deferred tells whether the key is in the second band.
func (q *Queue) Deferred(key string) bool {
	q.bands.mu.Lock()
	defer q.bands.mu.Unlock()
	return q.bands.deferred.Has(key)
}

// AddDeferred adds the key to the second band, in a moment.
func (q *Queue) AddDeferred(key string) {
	q.Defer(key)
	q.AddAfter(key, deferPause)
}

// Urgent is the number of keys that wait in the first band.
func (q *Queue) Urgent() int {
	q.bands.mu.Lock()
	defer q.bands.mu.Unlock()
	return q.bands.first.Len()
}

// bands is the storage of a keyQueue. The workqueue calls it under its own lock,
// the workers mark keys without that.
type bands struct {
	mu            sync.Mutex
	first, second workqueue.Queue[string]
	deferred      sets.Set[string] // keys that belong into the second band
}

var _ workqueue.Queue[string] = &bands{}

// Touch is called for a key that is added while it waits: it keeps its place.
func (b *bands) Touch(string) {}

// Push adds a key to its band.
func (b *bands) Push(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deferred.Has(key) {
		b.second.Push(key)
	} else {
		b.first.Push(key)
	}
}

// Len is the number of keys in both bands.
func (b *bands) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first.Len() + b.second.Len()
}

// Pop takes from the second band only when the first is empty.
func (b *bands) Pop() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first.Len() > 0 {
		return b.first.Pop()
	}
	return b.second.Pop()
}

// mark has the key deferred or not.
func (b *bands) mark(key string, deferred bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if deferred {
		b.deferred.Insert(key)
	} else {
		b.deferred.Delete(key)
	}
}
