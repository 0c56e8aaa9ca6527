package queue

import (
	"sync"
	"time"
)

// While somebody else keeps changing a count or a record that we hold, writes slow down: after
// the third time to one after 1, 2, 4, then every 8 minutes. With the three before
// that makes 12 in the first hour, and 7.5 in any later one.
const (
	contestedAfter   = 3
	minContestPause  = time.Minute
	maxContestPause  = 8 * time.Minute
	contestForgotten = 10 * time.Minute // a change this long after our write is a new matter
)

// Contests remembers our last writes, to see who undoes them. It is no state that
// a decision rests on: forgetting it costs a few writes.
type Contests struct {
	mu    sync.Mutex
	byKey map[string]*contest
}

// contest is about one Deployment.
type contest struct {
	replicas int32 // that we wrote; or any other number that stands for what we wrote
	at       time.Time
	undone   int  // how often in a row
	seen     bool // that the last write was undone
}

// NewContests remembers nothing yet.
func NewContests() *Contests { return &Contests{byKey: map[string]*contest{}} }

// Wait tells how long to wait before writing a count that is not there; 0: write now.
// First is set once in a contest, when it becomes one.
func (c *Contests) Wait(key string, replicas int32, now time.Time) (pause time.Duration, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byKey[key]
	if k == nil || k.replicas != replicas {
		return 0, false
	}
	if !k.seen {
		if now.Sub(k.at) > contestForgotten {
			delete(c.byKey, key)
			return 0, false
		}
		k.seen = true
		k.undone++
		first = k.undone == contestedAfter
	}
	if k.undone < contestedAfter {
		return 0, false
	}
	pause = min(minContestPause<<min(k.undone-contestedAfter, 10), maxContestPause)
	return max(k.at.Add(pause).Sub(now), 0), first
}

// Wrote notes a write of ours.
func (c *Contests) Wrote(key string, replicas int32, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byKey[key]
	if k == nil || k.replicas != replicas {
		k = &contest{replicas: replicas}
		c.byKey[key] = k
	}
	k.at, k.seen = now, false
}

// Settle forgets a contest that has ended; the count is right now.
func (c *Contests) Settle(key string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byKey[key]; k != nil && now.Sub(k.at) > contestForgotten {
		delete(c.byKey, key)
	}
}

// Forget drops what is known of a Deployment that is gone.
func (c *Contests) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}
