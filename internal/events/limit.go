package events

import (
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// limitBurst is how many events of a type about one object may come at once, and
	// limitInterval how often one more may: the numbers are client-go's.
	limitBurst    = 25
	limitInterval = 5 * time.Minute
	// minLimited objects are remembered without a thought, maxLimited at the most; each
	// takes about 40 bytes.
	minLimited = 1 << 10
	maxLimited = 1 << 16
)

// limiter bounds the events about each object. client-go's filter takes 2 kB for one, and
// so must forget where there are many: then nothing is limited any more. This one keeps a
// number for each, and forgets only whom it would not refuse anyway.
type limiter struct {
	mu   sync.Mutex
	seed maphash.Seed
	// full is when an object may have its whole burst again, in Unix nanoseconds; one
	// event moves it by limitInterval.
	full    map[uint64]int64
	sweepAt int // len(full) at which to look for what can be forgotten
}

func newLimiter() *limiter {
	return &limiter{seed: maphash.MakeSeed(), full: map[uint64]int64{}, sweepAt: minLimited}
}

// allow tells whether the object may have one more event of the type.
func (l *limiter) allow(object corev1.ObjectReference, eventtype string, now time.Time) bool {
	key := maphash.Comparable(l.seed, [...]string{object.Kind, object.Namespace, object.Name, string(object.UID), eventtype})
	at := now.UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	full, known := l.full[key]
	full = max(full, at) + limitInterval.Nanoseconds()
	if full > at+limitBurst*limitInterval.Nanoseconds() {
		return false
	}
	if !known && len(l.full) >= l.sweepAt {
		l.sweep(at)
	}
	l.full[key] = full
	return true
}

// sweep forgets who has its whole burst again. Where there are too many others, those go
// that have had the fewest events.
func (l *limiter) sweep(at int64) {
	for spared := at; ; spared += limitInterval.Nanoseconds() {
		for key, full := range l.full {
			if full <= spared {
				delete(l.full, key)
			}
		}
		if len(l.full) <= maxLimited/2 {
			break
		}
	}
	l.sweepAt = min(max(2*len(l.full), minLimited), maxLimited)
}
