package leader

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	k8stesting "k8s.io/client-go/testing"
)

func testElection() Options {
	return Options{
		LeaderElect: true, Namespace: "ns", Name: "lease",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
}

// diary is a worker that notes what it does and when, and takes its time to finish.
type diary struct {
	leadership *Leadership
	finish     time.Duration // from Shutdown to the last write
	deaf       bool          // to Shutdown; only the context ends it
	every      time.Duration // it writes

	stop    chan struct{}
	mu      sync.Mutex
	writes  []time.Time
	started time.Time
}

func newDiary(options Options) *diary {
	return &diary{leadership: New(options), stop: make(chan struct{}), every: time.Second}
}

// Run writes again and again while it leads.
func (d *diary) Run(ctx context.Context) error {
	d.mu.Lock()
	d.started = time.Now()
	d.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.stop:
			if !d.deaf {
				time.Sleep(d.finish)
				d.write()
				return nil
			}
			d.stop = nil
		case <-time.After(d.every):
			d.write()
		}
	}
}

func (d *diary) write() {
	if d.leadership.Leading() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.writes = append(d.writes, time.Now())
	}
}

// begun is when it began to lead.
func (d *diary) begun() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.started
}

// paused is the longest time without a write since a moment.
func (d *diary) paused(since time.Time) (longest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.writes {
		if at.After(since) {
			longest, since = max(longest, at.Sub(since)), at
		}
	}
	return longest
}

func (d *diary) Shutdown() { close(d.stop) }

func (d *diary) last() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.writes) == 0 {
		return time.Time{}
	}
	return d.writes[len(d.writes)-1]
}

// campaign runs a diary against the client until stop; the error comes on the channel.
func campaign(stop context.Context, client *fake.Clientset, d *diary) <-chan error {
	result := make(chan error, 1)
	go func() {
		result <- d.leadership.Run(context.Background(), stop, client.CoordinationV1(), d, 5*time.Second)
	}()
	return result
}

// installed is a cluster in which there was a leader, some day.
func installed() *fake.Clientset {
	return fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}})
}

// holder is who holds the Lease, "" after a release.
func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("ns").Get(context.Background(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestHandover: a leader that is told to stop finishes its work, then releases the
// Lease; a standby takes over at its next try, and nobody writes twice.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		var mu sync.Mutex
		var released time.Time
		client.PrependReactor("update", "leases", func(action k8stesting.Action) (bool, runtime.Object, error) {
			lease := leaseOf(action)
			if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				mu.Lock()
				defer mu.Unlock()
				released = time.Now()
			}
			return false, nil, nil
		})
		first, second := newDiary(testElection()), newDiary(testElection())
		first.finish = 1500 * time.Millisecond
		stop, cancel := context.WithCancel(context.Background())
		firstDone := campaign(stop, client, first)
		time.Sleep(5 * time.Second)
		stop2, cancel2 := context.WithCancel(context.Background())
		secondDone := campaign(stop2, client, second)
		time.Sleep(30 * time.Second)
		if !second.last().IsZero() {
			t.Errorf("a standby wrote")
		}

		told := time.Now()
		cancel()
		if err := <-firstDone; err != nil {
			t.Errorf("told to stop: %v", err)
		}
		if last := first.last(); last != told.Add(first.finish) {
			t.Errorf("the last write was %v after the signal, want %v", last.Sub(told), first.finish)
		}
		mu.Lock()
		at := released
		mu.Unlock()
		if at.IsZero() || at.Before(first.last()) {
			t.Errorf("released at %v, last write at %v", at, first.last())
		}
		if holder(t, client) != "" {
			t.Error("the Lease was not released")
		}
		time.Sleep(5 * time.Second)
		if took := second.begun().Sub(at); second.begun().IsZero() || took > 2*time.Second {
			t.Errorf("the standby took over %v after the release", took)
		}
		cancel2()
		if err := <-secondDone; err != nil {
			t.Errorf("told to stop: %v", err)
		}
	})
}

func leaseOf(action k8stesting.Action) *coordinationv1.Lease {
	return action.(k8stesting.UpdateAction).GetObject().(*coordinationv1.Lease)
}

// TestLostLease: a leader that cannot renew stops writing after RenewDeadline, before
// anybody else may start, and reports the loss.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		d := newDiary(testElection())
		var cutOff atomic.Bool
		for _, verb := range []string{"get", "update"} {
			client.PrependReactor(verb, "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
				if cutOff.Load() {
					return true, nil, errors.New("connection refused")
				}
				return false, nil, nil
			})
		}
		done := campaign(context.Background(), client, d)
		time.Sleep(20 * time.Second)
		cutOff.Store(true)
		lost := time.Now()
		if err := <-done; !errors.Is(err, errLeaseLost) {
			t.Errorf("got %v, want %v", err, errLeaseLost)
		}
		if wrote := d.last().Sub(lost); wrote > d.leadership.options.RenewDeadline {
			t.Errorf("wrote %v after the last renewal", wrote)
		}
		if d.leadership.Leading() {
			t.Error("still leads")
		}
	})
}

// TestSuccessorKeepsLease: a leader that was cut off and comes back only to release
// its Lease leaves that of its successor alone.
func TestSuccessorKeepsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		options := testElection()
		// Tries come every 1.14 s and end 11.14 s after the last renewal, the last at 10.2 s.
		options.RetryPeriod = 2500 * time.Millisecond
		d := newDiary(options)
		var mu sync.Mutex
		var renewed, cutOff time.Time
		var tries int
		client.PrependReactor("*", "leases", func(action k8stesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case cutOff.IsZero():
				renewed = time.Now()
			case time.Since(renewed) < options.RenewDeadline+500*time.Millisecond:
				return true, nil, errors.New("connection refused")
			case action.GetVerb() == "get":
				tries++
			}
			return false, nil, nil
		})
		done := campaign(context.Background(), client, d)
		time.Sleep(20 * time.Second)
		mu.Lock()
		cutOff = time.Now()
		mu.Unlock()
		obj, err := client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), "ns", "lease")
		if err != nil {
			t.Fatal(err)
		}
		lease := obj.(*coordinationv1.Lease).DeepCopy()
		successor := "successor"
		lease.Spec.HolderIdentity = &successor
		if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "ns"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, errLeaseLost) {
			t.Errorf("got %v, want %v", err, errLeaseLost)
		}
		if mu.Lock(); tries == 0 {
			t.Error("it did not come back, so this proves nothing")
		}
		mu.Unlock()
		if got := holder(t, client); got != successor {
			t.Errorf("the Lease is held by %q", got)
		}
	})
}

// TestLateAnswer: a renewal counts from when it was sent. Its answer may come late, to a
// process that was stopped, and the Lease be another's by then.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		d := newDiary(testElection())
		d.every = 50 * time.Millisecond
		const late = 11500 * time.Millisecond
		var sent time.Time
		client.PrependReactor("update", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			if now := time.Now(); sent.IsZero() && !d.begun().IsZero() && now.Sub(d.begun()) > 20*time.Second {
				sent = now
				time.Sleep(late)
			}
			return false, nil, nil
		})
		stop, cancel := context.WithCancel(context.Background())
		done := campaign(stop, client, d)
		time.Sleep(40 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		next := sent.Add(late + d.leadership.options.tryPeriod()) // renewal
		for _, at := range d.writes {
			if at.After(sent.Add(d.leadership.options.RenewDeadline)) && at.Before(next) {
				t.Errorf("wrote %v after the renewal was sent", at.Sub(sent))
			}
		}
		if sent.IsZero() || d.last().Before(next) {
			t.Errorf("sent at %v, last write at %v", sent, d.last())
		}
	})
}

// TestStopStandby: a standby that is told to stop does so at once.
func TestStopStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		first, second := newDiary(testElection()), newDiary(testElection())
		stop, cancel := context.WithCancel(context.Background())
		firstDone := campaign(stop, client, first)
		time.Sleep(time.Second)
		stop2, cancel2 := context.WithCancel(context.Background())
		secondDone := campaign(stop2, client, second)
		time.Sleep(10 * time.Second)
		before := holder(t, client)
		told := time.Now()
		cancel2()
		if err := <-secondDone; err != nil || time.Since(told) > 0 || !second.begun().IsZero() {
			t.Errorf("stopped after %v with %v", time.Since(told), err)
		}
		if holder(t, client) != before {
			t.Error("the Lease changed hands")
		}
		cancel()
		<-firstDone
	})
}

// TestNotLeading: who has let go of the Lease, or has seen that it is another's, does not
// write, however fresh its last renewal is.
func TestNotLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		d := newDiary(testElection())
		var released, writes, away atomic.Bool
		client.PrependReactor("update", "leases", func(action k8stesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, errors.New("no answer")
			}
			if who := leaseOf(action).Spec.HolderIdentity; who == nil || *who == "" {
				released.Store(true)
				writes.Store(d.leadership.Leading()) // while the release is on its way
			}
			return false, nil, nil
		})
		stop, cancel := context.WithCancel(t.Context())
		done := campaign(stop, client, d)
		time.Sleep(10 * time.Second)
		cancel()
		<-done
		if !released.Load() || writes.Load() {
			t.Errorf("released: %v; may write meanwhile: %v", released.Load(), writes.Load())
		}

		d = newDiary(testElection())
		done = campaign(t.Context(), client, d)
		time.Sleep(10 * time.Second)
		lease, err := client.CoordinationV1().Leases("ns").Get(t.Context(), "lease", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		another := "another"
		lease.Spec.HolderIdentity = &another
		if _, err := client.CoordinationV1().Leases("ns").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		taken := time.Now()
		away.Store(true) // a renewal is not answered; then it is read whose the Lease is
		if err := <-done; !errors.Is(err, errLeaseLost) {
			t.Errorf("got %v, want %v", err, errLeaseLost)
		}
		if wrote := d.last().Sub(taken); wrote > d.leadership.options.RetryPeriod {
			t.Errorf("wrote %v after the Lease was another's", wrote)
		}
	})
}

// TestPatience: work that does not finish is cut short, and the Lease released.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		d := newDiary(testElection())
		d.deaf = true
		stop, cancel := context.WithCancel(context.Background())
		done := campaign(stop, client, d)
		time.Sleep(10 * time.Second)
		told := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(told); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("stopped after %v, want 5s", took)
		}
		if holder(t, client) != "" {
			t.Error("the Lease was not released")
		}
	})
}

// stuck is a worker that nothing ends but the test.
type stuck struct{ free chan struct{} }

func (s stuck) Run(context.Context) error { <-s.free; return nil }
func (s stuck) Shutdown()                 {}

// TestUnfinished: work that nothing ends does not keep the process from ending. It may not
// write any more, and the Lease is left to run out: what it sent may still be carried out.
func TestUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := stuck{make(chan struct{})}
		defer close(w.free)
		leadership := New(testElection())
		stop, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- leadership.Run(context.Background(), stop, client.CoordinationV1(), w, 5*time.Second)
		}()
		time.Sleep(10 * time.Second)
		first := holder(t, client)
		successor := newDiary(testElection())
		stop2, cancel2 := context.WithCancel(t.Context())
		successorDone := campaign(stop2, client, successor)
		time.Sleep(10 * time.Second)
		told := time.Now()
		cancel()
		time.Sleep(6 * time.Second)
		if !leadership.Leading() {
			t.Error("may not write any more while its work is waited for")
		}
		if err := <-done; !errors.Is(err, errUnfinished) {
			t.Errorf("got %v, want %v", err, errUnfinished)
		}
		ended := time.Now()
		if took := ended.Sub(told); took != 7*time.Second {
			t.Errorf("ended after %v", took)
		}
		if leadership.Leading() {
			t.Error("what was left behind may write")
		}
		if got := holder(t, client); got != first {
			t.Errorf("the Lease is held by %q, want %q", got, first)
		}
		time.Sleep(30 * time.Second)
		if begun := successor.begun(); begun.Sub(ended) < leadership.options.LeaseDuration-leadership.options.RetryPeriod {
			t.Errorf("followed after %v", begun.Sub(ended))
		}
		cancel2()
		<-successorDone
	})
}

// TestUnfinishedWithoutLease: the same for one that loses its Lease, and for one that needs
// none.
func TestUnfinishedWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		w := stuck{make(chan struct{})}
		defer close(w.free)
		leadership := New(testElection())
		var refused atomic.Bool
		client.PrependReactor("*", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			return refused.Load(), nil, errors.New("connection refused")
		})
		done := make(chan error, 1)
		go func() {
			done <- leadership.Run(t.Context(), t.Context(), client.CoordinationV1(), w, 5*time.Second)
		}()
		time.Sleep(10 * time.Second)
		refused.Store(true)
		away := time.Now()
		if err := <-done; !errors.Is(err, errUnfinished) {
			t.Errorf("got %v, want %v", err, errUnfinished)
		}
		if took, want := time.Since(away), leadership.options.RenewDeadline+leadership.options.RetryPeriod+endPatience; took > want {
			t.Errorf("ended after %v, want %v at the most", took, want)
		}

		alone := New(Options{})
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		if err := alone.Run(t.Context(), stop, client.CoordinationV1(), w, time.Second); !errors.Is(err, errUnfinished) || alone.Leading() {
			t.Errorf("without election: %v, may write: %v", err, alone.Leading())
		}
	})
}

// TestGuard: reads pass always, writes only while leading.
func TestGuard(t *testing.T) {
	l := New(testElection())
	passed := 0
	guarded := l.Guard(roundTripper(func(*http.Request) (*http.Response, error) {
		passed++
		return &http.Response{Body: http.NoBody}, nil
	}))
	send := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://localhost/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := guarded.RoundTrip(r)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	if err := send(http.MethodGet); err != nil {
		t.Error(err)
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete} {
		if err := send(method); err == nil || !strings.Contains(err.Error(), "not the leader") {
			t.Errorf("%s as a standby: %v", method, err)
		}
	}
	l.options.LeaderElect = false
	if err := send(http.MethodPut); err != nil {
		t.Error(err)
	}
	if passed != 2 {
		t.Errorf("%d requests passed, want 2", passed)
	}
}

func TestElectionOptions(t *testing.T) {
	for _, tc := range []struct {
		change func(*Options)
		want   string // part of the error, "" for none
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.RetryPeriod = 0 }, "retry-period"},
		{func(o *Options) { o.RenewDeadline = 2 * time.Second }, "renew-deadline"},
		{func(o *Options) { o.LeaseDuration = 12 * time.Second }, "lease-duration"},
		{func(o *Options) { o.LeaseDuration = 15500 * time.Millisecond }, "whole seconds"},
		{func(o *Options) { o.Name = "" }, "resource-name"},
		{func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 6*time.Second, 4*time.Second, time.Second
		}, ""},
	} {
		o := testElection()
		tc.change(&o)
		err := o.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %q", o, err, tc.want)
		}
	}
}

// TestDeletedLease: the leader makes a Lease anew that was deleted, at its next try, and
// nobody else has it meanwhile: neither who has stood by, nor who has just come.
func TestDeletedLease(t *testing.T) {
	for after := 100 * time.Millisecond; after < 4*time.Second; after += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			client := installed()
			first, standby, newcomer := newDiary(testElection()), newDiary(testElection()), newDiary(testElection())
			ctx, cancel := context.WithCancel(context.Background())
			firstDone := campaign(ctx, client, first)
			time.Sleep(10 * time.Second)
			standbyDone := campaign(ctx, client, standby)
			time.Sleep(10*time.Second + after)
			was := holder(t, client)
			deleteLease(t, client)
			newcomerDone := campaign(ctx, client, newcomer)
			deleted := time.Now()
			time.Sleep(25 * time.Second)
			if holder(t, client) != was {
				t.Errorf("deleted after %v: the Lease has passed from %q to %q", after, was, holder(t, client))
			}
			if !standby.begun().IsZero() || !newcomer.begun().IsZero() {
				t.Errorf("deleted after %v: another leads", after)
			}
			if time.Since(first.last()) > time.Second || first.paused(deleted) > 3*time.Second {
				t.Errorf("deleted after %v: the leader paused for %v, last wrote %v ago", after, first.paused(deleted), time.Since(first.last()))
			}
			cancel()
			for _, done := range []<-chan error{firstDone, standbyDone, newcomerDone} {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestDeletedLeaseOfDead: a leader that cannot be reached may go on for RenewDeadline after
// its last renewal. Who has seen a Lease before it was deleted waits for longer.
func TestDeletedLeaseOfDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		cut := &cutOff{Clientset: client}
		first, standby := newDiary(testElection()), newDiary(testElection())
		firstDone := make(chan error, 1)
		go func() {
			firstDone <- first.leadership.Run(context.Background(), context.Background(), cut, first, 5*time.Second)
		}()
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		standbyDone := campaign(ctx, client, standby)
		time.Sleep(10 * time.Second)
		cut.off.Store(true)
		deleteLease(t, client)
		deleted := time.Now()
		if err := <-firstDone; !errors.Is(err, errLeaseLost) {
			t.Errorf("got %v, want %v", err, errLeaseLost)
		}
		time.Sleep(20 * time.Second)
		if standby.begun().IsZero() {
			t.Fatal("nobody leads")
		}
		if gap := standby.begun().Sub(first.last()); gap < 4*time.Second {
			t.Errorf("the next began %v after the last write of the former", gap)
		}
		if took := standby.begun().Sub(deleted); took < 15*time.Second || took > 19*time.Second {
			t.Errorf("the next began %v after the Lease was deleted", took)
		}
		cancel()
		<-standbyDone
	})
}

// TestDeletedLeaseTakenFirst: a leader whose Lease was made anew by another stops at its
// next try. One that only finds it gone does not write until it has made it anew.
func TestDeletedLeaseTakenFirst(t *testing.T) {
	for _, answer := range []string{"missing", "conflict"} {
		synctest.Test(t, func(t *testing.T) {
			client := installed()
			d := newDiary(testElection())
			var mu sync.Mutex
			var noticed time.Time
			var deleted atomic.Bool
			client.PrependReactor("update", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
				if !deleted.Load() {
					return false, nil, nil
				}
				mu.Lock()
				defer mu.Unlock()
				if noticed.IsZero() {
					noticed = time.Now()
				}
				if answer == "missing" {
					return true, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease")
				}
				return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", errors.New("another UID"))
			})
			client.PrependReactor("get", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
				if !deleted.Load() {
					return false, nil, nil
				}
				time.Sleep(2900 * time.Millisecond)
				return true, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease")
			})
			client.PrependReactor("create", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
				if !deleted.Load() {
					return false, nil, nil
				}
				return true, nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "lease")
			})
			done := campaign(context.Background(), client, d)
			time.Sleep(20 * time.Second)
			deleted.Store(true)
			if err := <-done; !errors.Is(err, errLeaseLost) {
				t.Errorf("got %v, want %v", err, errLeaseLost)
			}
			mu.Lock()
			defer mu.Unlock()
			if d.last().After(noticed) {
				t.Errorf("%s: wrote %v after it was noticed", answer, d.last().Sub(noticed))
			}
		})
	}
}

// TestFreshInstall: where there has never been a Lease, the first leader need not wait for
// as long as one that was deleted is waited for.
func TestFreshInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		first, second := newDiary(testElection()), newDiary(testElection())
		began := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		firstDone, secondDone := campaign(ctx, client, first), campaign(ctx, client, second)
		time.Sleep(time.Minute)
		if first.begun().IsZero() == second.begun().IsZero() {
			t.Fatalf("they began at %v and %v", first.begun(), second.begun())
		}
		leader := first
		if first.begun().IsZero() {
			leader = second
		}
		if took := leader.begun().Sub(began); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
		cancel()
		<-firstDone
		<-secondDone
	})
}

// TestMissingAnew: how long a Lease has been missing counts from the last answer that was no
// answer: there may have been one again.
func TestMissingAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		began := time.Now()
		const away = 4 * time.Second
		client.PrependReactor("get", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			since := time.Since(began)
			return since > 2*time.Second && since < away, nil, errors.New("no answer")
		})
		d := newDiary(testElection())
		stop, cancel := context.WithCancel(t.Context())
		done := campaign(stop, client, d)
		time.Sleep(time.Minute)
		if took := d.begun().Sub(began); took < away+5*time.Second || took > away+9*time.Second {
			t.Errorf("it took %v", took)
		}
		cancel()
		<-done
	})
}

// TestStoppedLeaderMakesNoLease: a leader that was stopped for long, and finds no Lease,
// cannot know that it has had no successor since.
func TestStoppedLeaderMakesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := installed()
		d := newDiary(testElection())
		var stopped, created atomic.Bool
		client.PrependReactor("update", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			if !stopped.Load() {
				return false, nil, nil
			}
			time.Sleep(10 * time.Second)
			return true, nil, errors.New("no answer")
		})
		client.PrependReactor("create", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			created.Store(stopped.Load())
			return false, nil, nil
		})
		done := campaign(context.Background(), client, d)
		time.Sleep(20 * time.Second)
		stopped.Store(true)
		deleteLease(t, client)
		if err := <-done; !errors.Is(err, errLeaseLost) {
			t.Errorf("got %v, want %v", err, errLeaseLost)
		}
		if created.Load() {
			t.Error("it made a Lease")
		}
	})
}

func deleteLease(t *testing.T, client *fake.Clientset) {
	t.Helper()
	if err := client.CoordinationV1().Leases("ns").Delete(context.Background(), "lease", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// cutOff is a client that can be cut off from an API server that others reach.
type cutOff struct {
	*fake.Clientset
	off atomic.Bool
}

// Leases implements LeasesGetter.
func (c *cutOff) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &cutOffLeases{c.CoordinationV1().Leases(namespace), c}
}

type cutOffLeases struct {
	coordinationv1client.LeaseInterface
	client *cutOff
}

func (c *cutOffLeases) down() error {
	if !c.client.off.Load() {
		return nil
	}
	time.Sleep(3 * time.Second)
	return errors.New("no answer")
}

func (c *cutOffLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := c.down(); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Get(ctx, name, o)
}

func (c *cutOffLeases) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := c.down(); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Create(ctx, l, o)
}

func (c *cutOffLeases) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := c.down(); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Update(ctx, l, o)
}
