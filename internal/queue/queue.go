// Package queue hands out keys to workers: those that people wait for first, those of
// namespaces in trouble beside the others, and those that somebody else contests less
// often.
package queue

import (
	"sync"
	"time"

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

// Queue is a rate-limited workqueue in two bands: a key that only waits for its status
// write is handed out when no other key waits. At a boundary, people wait for Pods, not
// for conditions. Namespaces take turns, and none whose passes hang holds up the others:
// see gate.
type Queue struct {
	workqueue.TypedRateLimitingInterface[string]
	clock clock.WithTicker
	gate  *gate

	mu       sync.Mutex
	boundary map[string]time.Time // the first after its last failure, of keys that fail
}

// New makes an empty queue whose timers go by clk.
func New(clk clock.WithTicker) *Queue {
	g := newGate(clk)
	// The default limiter has a bucket for all keys together as well, which would
	// make one namespace's trouble everybody's.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)
	return &Queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name:  queueName,
				Clock: clk,
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: queueName, Clock: clk, Queue: g}),
			}),
		}),
		clock:    clk,
		gate:     g,
		boundary: map[string]time.Time{},
	}
}

// Work hands each key to pass, as many at a time as there are places and, where some are
// slow, a bounded number more. It returns after ShutDown, when the passes that run then are
// over; keys that wait are left to whoever works next. Call it once.
func (q *Queue) Work(places int, pass func(key string)) {
	var workers, watcher sync.WaitGroup
	worker := func() {
		for q.next(pass) {
		}
	}
	over := make(chan struct{})
	watcher.Go(func() { q.watch(over) })
	// The gate starts a worker in the stead of one that cannot end meanwhile.
	q.gate.open(places, func() { workers.Go(worker) })
	for range places {
		workers.Go(worker)
	}
	workers.Wait()
	close(over)
	watcher.Wait()
}

// next hands the next key to pass. It tells whether the worker goes on.
func (q *Queue) next(pass func(key string)) bool {
	key, quit := q.Get()
	if quit {
		return false
	}
	if q.ShuttingDown() { // the workqueue hands out its backlog first; that is for our successor
		q.Done(key)
		return false
	}
	q.gate.cede(key)
	pass(key)
	return q.done(key)
}

// watch has passes lose their places when they become slow, until over is closed.
func (q *Queue) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-q.gate.began:
		}
		for left := slow; left > 0; left = q.gate.lend() {
			timer := q.clock.NewTimer(left)
			select {
			case <-over:
				timer.Stop()
				return
			case <-timer.C():
			}
		}
	}
}

// Get is the workqueue's.
func (q *Queue) Get() (key string, quit bool) {
	for {
		key, quit = q.TypedRateLimitingInterface.Get()
		if quit || key != wake {
			return key, quit
		}
		q.TypedRateLimitingInterface.Done(wake)
		q.wakeNext()
	}
}

// Done is the workqueue's.
func (q *Queue) Done(key string) { q.done(key) }

// done tells whether the pass held a place until now.
func (q *Queue) done(key string) bool {
	held, more := q.gate.leave(key)
	q.TypedRateLimitingInterface.Done(key)
	if more {
		q.wakeNext()
	}
	return held
}

func (q *Queue) wakeNext() {
	if q.gate.wakeNext() {
		q.Add(wake)
	}
}

// Wrote notes that the pass over the key sends a write. Only from one that is soon
// answered can be told that nothing hangs in its namespace.
func (q *Queue) Wrote(key string) { q.gate.wrote(key) }

// Stuck tells whether no pass can begin because of others that have run for longer than
// timeout. That some namespaces hang is not enough.
func (q *Queue) Stuck(timeout time.Duration) bool { return q.gate.stuck(timeout) }

// Len is the number of keys that wait.
func (q *Queue) Len() int {
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	return q.gate.keys
}

// Retry adds a key whose pass has failed, after a pause that grows with each failure, but
// at the boundary at the latest; there is none if that is zero. When the boundary of the
// failure before has passed, the pauses begin anew: something else is due since then.
func (q *Queue) Retry(key string, boundary time.Time) {
	now := q.clock.Now()
	q.mu.Lock()
	if before, ok := q.boundary[key]; ok && !now.Before(before) {
		q.TypedRateLimitingInterface.Forget(key)
	}
	if boundary.IsZero() {
		delete(q.boundary, key)
	} else {
		q.boundary[key] = boundary
	}
	q.mu.Unlock()
	q.AddRateLimited(key)
	if !boundary.IsZero() {
		q.AddAfter(key, boundary.Sub(now)) // the earlier of the two counts
	}
}

// Forget is the workqueue's: the key has not failed.
func (q *Queue) Forget(key string) {
	q.mu.Lock()
	delete(q.boundary, key)
	q.mu.Unlock()
	q.TypedRateLimitingInterface.Forget(key)
}

// Defer puts the key into the second band from its next Add on, until Promote.
func (q *Queue) Defer(key string) { q.gate.mark(key, true) }

// Promote puts the key back into the first band, from its next Add on.
func (q *Queue) Promote(key string) { q.gate.mark(key, false) }

// Deferred tells whether the key is in the second band.
func (q *Queue) Deferred(key string) bool {
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	return q.gate.deferred.Has(key)
}

// AddDeferred adds the key to the second band, in a moment.
func (q *Queue) AddDeferred(key string) {
	q.Defer(key)
	q.AddAfter(key, deferPause)
}

// Urgent is the number of keys that wait in the first band, but for those of namespaces
// in trouble: what waits for urgent keys would wait for long.
func (q *Queue) Urgent() int {
	q.gate.mu.Lock()
	defer q.gate.mu.Unlock()
	return q.gate.urgent
}
