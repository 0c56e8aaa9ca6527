package queue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// TestBands: what people wait for is handed out first, whatever came before it.
func TestBands(t *testing.T) {
	q := New(clock.RealClock{})
	defer q.ShutDown()
	q.Defer("status")
	q.Add("status")
	q.Add("scale-1")
	q.Add("scale-2")
	if n := q.Urgent(); n != 2 || q.Len() != 3 {
		t.Errorf("%d urgent of %d", n, q.Len())
	}
	for _, want := range []string{"scale-1", "scale-2", "status"} {
		if got, _ := q.Get(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if !q.Deferred("status") || q.Deferred("scale-1") {
		t.Error("marks have changed by being handed out")
	}
	q.Promote("status")
	q.Done("status")
	q.Add("status")
	if q.Deferred("status") || q.Urgent() != 1 {
		t.Error("what was promoted is not urgent")
	}
}

// TestBandsShare: of what people wait for there may be no end; now and then a key of the
// others is handed out, as long as there are some.
func TestBandsShare(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC))
	q := New(clk)
	defer q.ShutDown()
	for i := range 100 {
		q.Add(fmt.Sprint("scale-", i))
	}
	for i := range 3 {
		key := fmt.Sprint("status-", i)
		q.Defer(key)
		q.Add(key)
	}
	var at []int
	for i := range 103 {
		if key, _ := q.Get(); q.Deferred(key) {
			at = append(at, i)
		}
		clk.Step(10 * time.Millisecond)
	}
	if want := []int{10, 20, 30}; !slices.Equal(at, want) {
		t.Errorf("the second band's turn came at %v, want %v", at, want)
	}
}

// TestAddDeferred: a key that is being worked on comes back into the second band, and
// only after its worker has let it go.
func TestAddDeferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(clock.RealClock{})
		defer q.ShutDown()
		q.Add("a")
		if _, quit := q.Get(); quit {
			t.Fatal("nothing to do")
		}
		q.AddDeferred("a")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if q.Len() != 0 {
			t.Error("handed out while it is being worked on")
		}
		q.Done("a")
		if q.Len() != 1 || q.Urgent() != 0 {
			t.Errorf("%d keys, %d of them urgent", q.Len(), q.Urgent())
		}
	})
}

// TestBackoff: 5 ms, twice as long each time, 5 minutes at the most; forgotten once it
// goes well.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(clock.RealClock{})
		defer q.ShutDown()
		want := minBackoff
		for failure := range 20 {
			begun := time.Now()
			q.AddRateLimited("a")
			key, _ := q.Get()
			q.Done(key)
			if took := time.Since(begun); took != want {
				t.Fatalf("failure %d: back after %v, want %v", failure+1, took, want)
			}
			want = min(2*want, 300*time.Second)
		}
		q.Forget("a")
		begun := time.Now()
		q.AddRateLimited("a")
		key, _ := q.Get()
		q.Done(key)
		if took := time.Since(begun); took != 5*time.Millisecond {
			t.Errorf("after it went well, back after %v", took)
		}
	})
}

// TestContests: pauses of 1, 2, 4, then 8 minutes from the third time on; a change that
// comes ten minutes after our write is a new matter, and so is another count.
func TestContests(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	c := NewContests()
	undone := func(replicas int32) string {
		t.Helper()
		c.Wrote("a", replicas, now)
		now = now.Add(time.Second)
		pause, first := c.Wait("a", replicas, now)
		now = now.Add(pause)
		return fmt.Sprint(pause, first)
	}
	for i, want := range []string{"0s false", "0s false", "59s true", "1m59s false", "3m59s false", "7m59s false", "7m59s false"} {
		if got := undone(3); got != want {
			t.Errorf("time %d: %s, want %s", i+1, got, want)
		}
	}
	for range 100 { // however long it lasts
		if got := undone(3); got != "7m59s false" {
			t.Fatal(got)
		}
	}
	c.Wrote("a", 3, now)
	for _, tc := range []struct {
		replicas int32
		want     time.Duration
	}{{4, 0}, {3, 8 * time.Minute}} {
		if pause, first := c.Wait("a", tc.replicas, now); pause != tc.want || first {
			t.Errorf("%d is due: %v, %v", tc.replicas, pause, first)
		}
	}
	if got := undone(4); got != "0s false" {
		t.Errorf("another count: %s", got)
	}
	undone(4)
	c.Wrote("a", 4, now)
	now = now.Add(10*time.Minute + time.Second)
	if pause, first := c.Wait("a", 4, now); pause != 0 || first {
		t.Errorf("a late change: %v, %v", pause, first)
	}
	undone(5)
	undone(5)
	c.Wrote("a", 5, now)
	c.Settle("a", now.Add(10*time.Minute)) // not yet
	if _, first := c.Wait("a", 5, now.Add(time.Second)); !first {
		t.Error("it was settled too early")
	}
	c.Settle("a", now.Add(10*time.Minute+time.Second))
	c.Forget("b")
	if len(c.byKey) != 0 {
		t.Errorf("%d contests are kept", len(c.byKey))
	}
	c.Wrote("a", 5, now)
	c.Forget("a")
	if len(c.byKey) != 0 {
		t.Errorf("%d contests of what is gone are kept", len(c.byKey))
	}
}
