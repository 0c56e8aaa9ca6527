// Package leader campaigns for the Lease, and lets nobody write who does not hold it.
package leader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// errLeaseLost is why a leader stops that was not told to.
var errLeaseLost = errors.New("lost the Lease")

// errUnfinished is what a leader stops with whose work has not ended.
var errUnfinished = errors.New("the workers did not stop; the Lease is left to run out")

// endPatience is how long work may take to end once its context has: a request is cut
// short at once, and nothing that is computed takes as long.
const endPatience = 2 * time.Second

// Options say which Lease to campaign for, and its timing.
type Options struct {
	LeaderElect                bool
	Namespace, Name            string
	LeaseDuration              time.Duration
	RenewDeadline, RetryPeriod time.Duration
}

// AddFlags adds the flags of the election.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "write only while holding a Lease, so that several replicas can run")
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a standby waits after the last renewal that it saw")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader goes on without a renewal")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "the longest time between two tries")
	fs.StringVar(&o.Namespace, "leader-elect-resource-namespace", "", "namespace of the Lease (default: the pod's, or the kubeconfig context's)")
	fs.StringVar(&o.Name, "leader-elect-resource-name", "schedule-night", "name of the Lease")
}

// Validate leaves room for one request of the Lease's client between the last moment
// at which this process may write and the first at which another may. That can be a
// second before LeaseDuration has passed: a standby of client-go's compares Leases by
// whole seconds, and so may not see the last renewal.
func (o *Options) Validate() error {
	wrong := func(flag string, value any, format string, args ...any) error {
		return fmt.Errorf("--leader-elect-%s %q: %s", flag, fmt.Sprint(value), fmt.Sprintf(format, args...))
	}
	switch {
	case !o.LeaderElect:
		return nil
	case o.RetryPeriod <= 0:
		return wrong("retry-period", o.RetryPeriod, "want more than 0s")
	case o.RenewDeadline <= o.RetryPeriod:
		return wrong("renew-deadline", o.RenewDeadline, "want more than --leader-elect-retry-period, %v", o.RetryPeriod)
	case o.LeaseDuration < o.RenewDeadline+o.RetryPeriod+time.Second:
		return wrong("lease-duration", o.LeaseDuration, "want at least a second more than --leader-elect-renew-deadline, %v, and --leader-elect-retry-period, %v, together", o.RenewDeadline, o.RetryPeriod)
	case o.LeaseDuration%time.Second != 0:
		return wrong("lease-duration", o.LeaseDuration, "want whole seconds")
	case o.Name == "":
		return wrong("resource-name", o.Name, "want a name")
	}
	return nil
}

// RequestTimeout is what the Lease's client must have: a leader that is cut off has
// then stopped before its Lease can pass to another.
func (o *Options) RequestTimeout() time.Duration {
	return o.LeaseDuration - o.RenewDeadline - o.RetryPeriod
}

// absence is how long a Lease must have been missing before a candidate makes one: somebody
// may have deleted it while its holder writes. The holder makes it anew at its next try.
// One that has found it gone and cannot, or is not answered, stops within RenewDeadline of
// its last renewal, which a candidate that has seen the Lease waits out with the same
// margin as ever. One that has not seen any, as on the day of the installation, waits for
// the holder's next try and the answer to it.
func (o *Options) absence(seen bool) time.Duration {
	if seen {
		return o.LeaseDuration
	}
	return o.RetryPeriod + o.RequestTimeout()
}

// tryPeriod is what client-go is given as its retry period. It waits up to
// 1+JitterFactor times as long between two tries; so the flag is the most that it waits,
// and a Lease that was released is taken within it.
func (o *Options) tryPeriod() time.Duration {
	return time.Duration(float64(o.RetryPeriod) / (1 + leaderelection.JitterFactor))
}

// Leadership is this process's part in the election.
type Leadership struct {
	options Options
	elector atomic.Pointer[leaderelection.LeaderElector]
	renewed atomic.Pointer[time.Time] // when the last renewal that succeeded was sent
	// unfinished is set when work was left behind that had not ended. A write that it has
	// sent may still be carried out, as after a crash. So the Lease is not released, for the
	// time that it has left is what keeps a successor from writing meanwhile; and what is
	// left behind sends nothing more, until the process has ended.
	unfinished atomic.Bool
	// watchdog fails when the leader has not renewed within LeaseDuration plus
	// its timeout: the election's own loop is then dead.
	watchdog *leaderelection.HealthzAdaptor
}

// New takes no part in an election until Run.
func New(options Options) *Leadership {
	return &Leadership{options: options, watchdog: leaderelection.NewLeaderHealthzAdaptor(options.RetryPeriod)}
}

// Leading tells whether this process may write: it holds the Lease and has
// renewed it within RenewDeadline. The rest of LeaseDuration is a margin in
// which nobody writes. The clock is monotonic and goes on while a process is
// stopped, so one that comes back late finds the answer false; the more so as it is
// counted from when the renewal was sent: its answer may have come late too, and the
// elector counts from that.
func (l *Leadership) Leading() bool {
	if !l.options.LeaderElect {
		return !l.unfinished.Load()
	}
	elector, renewed := l.elector.Load(), l.renewed.Load()
	return !l.unfinished.Load() && elector != nil && elector.IsLeader() && renewed != nil && time.Since(*renewed) <= l.options.RenewDeadline
}

// Healthy fails when the leader has not renewed within LeaseDuration plus RetryPeriod: the
// election's own loop is then dead.
func (l *Leadership) Healthy() error {
	if err := l.watchdog.Check(nil); err != nil {
		return fmt.Errorf("renewing the Lease: %w", err)
	}
	return nil
}

// Guard refuses every request but reads while this process does not lead.
// It is the last thing before the wire, so no path through the code misses it.
func (l *Leadership) Guard(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !l.Leading() {
			return nil, errors.New("not the leader: refusing to write")
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Worker is what a leader runs: Run returns when ctx is done, or Shutdown was
// called and the work in flight is finished.
type Worker interface {
	Run(ctx context.Context) error
	Shutdown()
}

// Run campaigns for the Lease and, as leader, runs w. When stop is done, it
// shuts w down, waits for it, at most patience, and only then releases the Lease,
// so that no write follows the release. When the Lease is lost, w's context is
// cancelled and the result is errLeaseLost. It returns even if w does not, with
// errUnfinished: then the process is to end.
func (l *Leadership) Run(ctx, stop context.Context, leases coordinationv1client.LeasesGetter, w Worker, patience time.Duration) error {
	if !l.options.LeaderElect {
		return l.lead(ctx, stop, w, patience)
	}
	elector, elected, err := l.newElector(leases)
	if err != nil {
		return err
	}
	electionCtx, endElection := context.WithCancel(ctx)
	defer endElection()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electionCtx) // on its way out it releases a Lease that it holds
	}()

	select {
	case <-stop.Done():
		endElection()
		<-ended
		return nil
	case <-ended:
		return errLeaseLost
	case leaseCtx := <-elected:
		err := l.lead(leaseCtx, stop, w, patience)
		endElection()
		<-ended
		if err == nil && stop.Err() == nil {
			err = errLeaseLost
		}
		return err
	}
}

// lead runs w until ctx is done or stop is. What does not end then, although its context
// has ended, is left behind: the process ends without it.
func (l *Leadership) lead(ctx, stop context.Context, w Worker, patience time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // the Lease is lost
	case <-stop.Done():
		w.Shutdown()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		case <-time.After(patience):
			klog.FromContext(ctx).Info("Work in flight did not finish in time, cutting it short", "patience", patience)
			cancel()
		}
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endPatience):
		l.unfinished.Store(true)
		return errUnfinished
	}
}

// newElector prepares the election; the channel yields the leader's context once.
func (l *Leadership) newElector(leases coordinationv1client.LeasesGetter) (*leaderelection.LeaderElector, <-chan context.Context, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("naming this candidate: %w", err)
	}
	identity := hostname + "_" + string(uuid.NewUUID())

	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock{leadership: l, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.options.Namespace, Name: l.options.Name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}},
		LeaseDuration:   l.options.LeaseDuration,
		RenewDeadline:   l.options.RenewDeadline,
		RetryPeriod:     l.options.tryPeriod(),
		ReleaseOnCancel: true,
		WatchDog:        l.watchdog,
		Name:            l.options.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { elected <- ctx },
			OnStoppedLeading: func() {},
			OnNewLeader: func(leader string) {
				if leader == nobody {
					return
				}
				klog.Background().Info("Leader elected", "leader", leader, "self", leader == identity)
			},
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("setting up the election: %w", err)
	}
	l.watchdog.SetLeaderElection(elector) // RunOrDie would do it, and exit too
	l.elector.Store(elector)
	return elector, elected, nil
}

// nobody is the holder that the elector is told of while there is no Lease, and no time yet
// to make one.
const nobody = "nobody: there is no Lease"

// lock is the Lease as the elector reads and writes it. It notes when a renewal was
// sent, and lets only the holder release: client-go's elector releases because of what
// it has last observed, whatever it has just read, so that a leader that was cut off
// would take the Lease from its successor. And it does not make a Lease at once where
// there is none, as that elector would: see absence.
type lock struct {
	resourcelock.Interface
	leadership *Leadership
	holder     string    // by the last read or write
	renewed    time.Time // when the last write of ours that succeeded was sent
	seen       bool      // that there was a Lease
	missing    time.Time // since when it is known that there is none
}

// Get reads the Lease, and remembers who holds it. One that is missing is held by nobody
// until it may be made.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	options := &l.leadership.options
	switch {
	case err == nil:
		l.holder, l.seen, l.missing = record.HolderIdentity, true, time.Time{}
		return record, raw, nil
	case !apierrors.IsNotFound(err):
		l.missing = time.Time{} // for all that is known there is one again
		return nil, nil, fmt.Errorf("reading the Lease: %w", err)
	case l.holder == l.Identity() && time.Since(l.renewed) <= options.RenewDeadline:
		return nil, nil, fmt.Errorf("reading our Lease: %w", err) // nobody can have followed us
	}
	l.holder = ""
	absence := options.absence(l.seen)
	if l.missing.IsZero() {
		l.missing = time.Now()
		klog.FromContext(ctx).Info("There is no Lease, will make one if it stays away", "absence", absence)
	}
	if time.Since(l.missing) < absence {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: nobody, LeaseDurationSeconds: math.MaxInt32}, []byte(nobody), nil
	}
	return nil, nil, fmt.Errorf("reading the Lease: %w", err)
}

// Create makes the Lease, held by this process.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	if err := l.Interface.Create(ctx, record); err != nil {
		return fmt.Errorf("creating the Lease: %w", err)
	}
	l.held(sent)
	return nil
}

// Update writes the Lease; an empty holder releases it. The resourceVersion of the
// last read makes sure that it is still held by whom that read found. A leader whose Lease
// is gone or another's writes nothing more until it holds it again.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	release := record.HolderIdentity == ""
	switch {
	case release && l.leadership.unfinished.Load():
		return errors.New("not releasing the Lease: work has not ended")
	case release && l.holder != l.Identity():
		return fmt.Errorf("not releasing the Lease of %q", l.holder)
	case release:
		l.leadership.renewed.Store(nil) // whatever the answer
	}
	sent := time.Now()
	err := l.Interface.Update(ctx, record)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		l.leadership.renewed.Store(nil)
	}
	if err != nil {
		return fmt.Errorf("writing the Lease: %w", err)
	}
	if !release {
		l.held(sent)
	}
	return nil
}

// held notes that this process holds the Lease by what was sent then.
func (l *lock) held(sent time.Time) {
	l.holder, l.renewed, l.seen, l.missing = l.Identity(), sent, true, time.Time{}
	l.leadership.renewed.Store(&sent)
}
