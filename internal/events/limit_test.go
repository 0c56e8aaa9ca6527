package events

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func numbered(i int) corev1.ObjectReference {
	o := object()
	o.Name, o.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	return o
}

// TestEventsAreLimited: an object whose owner edits it again and again has 25 events, and
// then one in five minutes, however many such objects there are.
func TestEventsAreLimited(t *testing.T) {
	const rounds, pause = 40, 10 * time.Second
	for _, objects := range []int{1, 100, 300} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			var writes atomic.Int64
			client.PrependReactor("*", "events", func(action k8stesting.Action) (bool, runtime.Object, error) {
				switch action := action.(type) {
				case k8stesting.CreateAction:
					writes.Add(1)
					return true, action.GetObject(), nil
				case k8stesting.PatchAction:
					writes.Add(1)
					return true, &corev1.Event{}, nil
				}
				return true, &corev1.EventList{}, nil
			})
			_, e := deliver(t, client, never, func(e *Deliverer) {
				for round := range rounds {
					for i := range objects {
						e.Eventf(numbered(i), corev1.EventTypeWarning, "InvalidSchedule", "mistake number %d", round)
					}
					time.Sleep(pause)
				}
			})
			const want = 25 + int(rounds*pause/(5*time.Minute))
			if total := int(writes.Load()); total != want*objects || e.Lost() != 0 {
				t.Errorf("%d objects: %.1f writes for each, want %d; %d events lost", objects, float64(total)/float64(objects), want, e.Lost())
			}
		})
	}
}

// TestEventsWaitWithinLimits: an object whose owner edits it without rest takes no room from
// others' events while they all wait for scale writes, and no memory with long words; and
// what others are told does come, however long the writes wait.
func TestEventsWaitWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		always := func() bool { return true }
		events, e := deliver(t, client, always, func(e *Deliverer) {
			for i := range 3000 {
				if i < 100 {
					time.Sleep(time.Nanosecond) // or their names would be the same
				}
				e.Eventf(numbered(1), corev1.EventTypeNormal, "ScaledDown", "%d "+strings.Repeat("ä", 5000), i)
			}
			e.Eventf(numbered(2), corev1.EventTypeNormal, "ScaledUp", "awake")
			if n := len(e.backlog); n > 26 {
				t.Errorf("%d events wait", n)
			}
			time.Sleep(time.Minute)
			if n := len(e.backlog); n != 0 {
				t.Errorf("%d events wait after a minute", n)
			}
		})
		if e.Lost() != 0 {
			t.Errorf("%d events were lost", e.Lost())
		}
		told := false
		for _, event := range events {
			told = told || event.Message == "awake"
			if n := len(event.Message); n > 1024 || n > 10 && n < 980 || !utf8.ValidString(event.Message) {
				t.Errorf("a message of %d bytes: %q", n, event.Message)
			}
		}
		if !told {
			t.Error("another object's event is missing")
		}
	})
}

// TestLimiter: a burst, then one at a time, each kind of event by itself; and only what
// makes a difference is remembered.
func TestLimiter(t *testing.T) {
	l := newLimiter()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	count := func(object corev1.ObjectReference, eventtype string, tries int) (allowed int) {
		for range tries {
			if l.allow(object, eventtype, now) {
				allowed++
			}
		}
		return allowed
	}
	if n := count(numbered(1), corev1.EventTypeNormal, 100); n != 25 {
		t.Errorf("%d events at once", n)
	}
	if n := count(numbered(1), corev1.EventTypeWarning, 100); n != 25 {
		t.Errorf("%d of another type", n)
	}
	if n := count(numbered(2), corev1.EventTypeNormal, 100); n != 25 {
		t.Errorf("%d of another object", n)
	}
	anew := numbered(1)
	anew.UID = "another"
	if n := count(anew, corev1.EventTypeNormal, 100); n != 25 {
		t.Errorf("%d of one made anew", n)
	}
	now = now.Add(5*time.Minute - time.Nanosecond)
	if n := count(numbered(1), corev1.EventTypeNormal, 100); n != 0 {
		t.Errorf("%d events too early", n)
	}
	now = now.Add(time.Nanosecond)
	if n := count(numbered(1), corev1.EventTypeNormal, 100); n != 1 {
		t.Errorf("%d events after five minutes", n)
	}
	now = now.Add(time.Hour)
	if n := count(numbered(1), corev1.EventTypeNormal, 100); n != 12 {
		t.Errorf("%d events after an hour", n)
	}
	now = now.Add(24 * time.Hour)
	if n := count(numbered(1), corev1.EventTypeNormal, 100); n != 25 {
		t.Errorf("%d events after a day", n)
	}
}

// TestLimiterForgets: what has its whole burst again takes no room, and the room is
// bounded in any case; then those go first that have had the fewest events.
func TestLimiterForgets(t *testing.T) {
	l := newLimiter()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for night := range 10 {
		for i := range 2000 {
			if !l.allow(numbered(i), corev1.EventTypeNormal, now) {
				t.Fatalf("night %d: an event of a boundary is dropped", night)
			}
		}
		now = now.Add(12 * time.Hour)
	}
	for i := range minLimited {
		l.allow(numbered(1_000_000+i), corev1.EventTypeNormal, now)
		now = now.Add(6 * time.Minute)
	}
	if n := len(l.full); n > minLimited {
		t.Errorf("%d objects are remembered that have their burst", n)
	}

	for range 25 {
		l.allow(numbered(0), corev1.EventTypeNormal, now)
	}
	for i := range 3 * maxLimited {
		l.allow(numbered(i+1), corev1.EventTypeNormal, now)
		if n := len(l.full); n > maxLimited {
			t.Fatalf("%d objects are remembered", n)
		}
	}
	if l.allow(numbered(0), corev1.EventTypeNormal, now) {
		t.Error("who has had the most events was forgotten first")
	}
}
