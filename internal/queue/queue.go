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
)

// Queue is a rate-limited workqueue in two bands: a key that only waits for its
// status write is handed out when no other key waits. At a boundary, people wait
// for Pods, not for conditions.
type Queue struct {
	workqueue.TypedRateLimitingInterface[string]
	Bands *bands
}

func New(clk clock.WithTicker) *Queue {
	b := &bands{
		first:  workqueue.DefaultQueue[string](),
		second: workqueue.DefaultQueue[string](),
		Status: sets.New[string](),
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
		Bands: b,
	}
}

// WaitForStatus puts the key into the second band from its next Add on.
func (q *Queue) WaitForStatus(key string) { q.Bands.setStatus(key, true) }

// WaitedForStatus tells whether the key is in the second band, and ends that.
func (q *Queue) WaitedForStatus(key string) bool { return q.Bands.setStatus(key, false) }

// Urgent is the number of keys that wait in the first band.
func (q *Queue) Urgent() int {
	q.Bands.mu.Lock()
	defer q.Bands.mu.Unlock()
	return q.Bands.first.Len()
}

// bands is the storage of a keyQueue. The workqueue calls it under its own lock,
// the workers mark keys without that.
type bands struct {
	mu            sync.Mutex
	first, second workqueue.Queue[string]
	Status        sets.Set[string] // keys that belong into the second band
}

var _ workqueue.Queue[string] = &bands{}

// Touch is called for a key that is added while it waits: it keeps its place.
func (b *bands) Touch(string) {}

// Push adds a key to its band.
func (b *bands) Push(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Status.Has(key) {
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

// setStatus marks the key or not, and tells whether it was marked.
func (b *bands) setStatus(key string, marked bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.Status.Has(key)
	if marked {
		b.Status.Insert(key)
	} else {
		b.Status.Delete(key)
	}
	return was
}
