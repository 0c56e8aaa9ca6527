package main

import (
	"encoding/json"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// While somebody else keeps changing a count that we hold, writes slow down: after
// the third time to one after 1, 2, 4, then every 8 minutes. With the three before
// that makes 12 in the first hour, and 7.5 in any later one.
const (
	contestedAfter   = 3
	minContestPause  = time.Minute
	maxContestPause  = 8 * time.Minute
	contestForgotten = 10 * time.Minute // a change this long after our write is a new matter
)

// contention remembers our last writes, to see who undoes them. It is no state that
// a decision rests on: forgetting it costs a few writes.
type contention struct {
	mu    sync.Mutex
	byKey map[string]*contest
}

// contest is about one Deployment.
type contest struct {
	replicas int32 // that we wrote
	at       time.Time
	undone   int  // how often in a row
	seen     bool // that the last write was undone
}

func newContention() *contention { return &contention{byKey: map[string]*contest{}} }

// wait tells how long to wait before writing a count that is not there; 0: write now.
// First is set once in a contest, when it becomes one.
func (c *contention) wait(key string, replicas int32, now time.Time) (pause time.Duration, first bool) {
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

// wrote notes a write of ours.
func (c *contention) wrote(key string, replicas int32, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byKey[key]
	if k == nil || k.replicas != replicas {
		k = &contest{replicas: replicas}
		c.byKey[key] = k
	}
	k.at, k.seen = now, false
}

// settle forgets a contest that has ended; the count is right now.
func (c *contention) settle(key string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.byKey[key]; k != nil && now.Sub(k.at) > contestForgotten {
		delete(c.byKey, key)
	}
}

// forget drops what is known of a Deployment that is gone.
func (c *contention) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// replicasManager is the field manager that last set spec.replicas, other than we, as
// the live object's managedFields have it; "" if none does.
func replicasManager(live *appsv1.Deployment) string {
	var name string
	var latest metav1.Time
	for _, entry := range live.ManagedFields {
		if entry.Manager == fieldManager || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil || owned.Spec.Replicas == nil {
			continue
		}
		if name == "" || entry.Time != nil && latest.Before(entry.Time) {
			name = entry.Manager
			if entry.Time != nil {
				latest = *entry.Time
			}
		}
	}
	return name
}
