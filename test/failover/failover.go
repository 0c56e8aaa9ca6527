// Package failover measures two processes of the controller while the leader, its
// network or the control plane fails around a boundary: how long until another leads,
// how long until all counts are right, and whether a process ever writes after the
// end of its Lease. All times but that of the fault itself come from the API server's
// audit log.
package failover

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"schedule-night/test/cluster"
	"schedule-night/test/program"
)

const (
	deployments = 48
	namespaces  = 6
	expected    = 3 // replicas in the day

	prefix      = "schedule-night.svc/"
	account     = "schedule-night" // and its namespace
	accountUser = "system:serviceaccount:schedule-night:schedule-night"
	// credentialID is where the audit log tells one token of an account from another.
	credentialID = "authentication.kubernetes.io/credential-id"

	// prepareTime is what the Deployments are given to be awake before the fault. A
	// machine that is too slow for that is given more.
	prepareTime = 2 * time.Second
	// settleLimit bounds every wait but that for the outage.
	settleLimit = 2 * time.Minute
	eventsLimit = 20 * time.Second
	poll        = 50 * time.Millisecond
)

// Options choose what is measured.
type Options struct {
	Program, Deploy                           string // the built controller; the folder of its manifests
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	Outage                                    time.Duration // of the control plane
	Runs                                      int
	Log                                       io.Writer // for progress
}

// Outcome is what came of one scenario.
type Outcome struct {
	Scenario   string
	Takeover   time.Duration // from the fault to the successor's Lease
	Right      time.Duration // from the fault to the last count that was due
	Due        time.Duration // to the same from the boundary, or from the control plane's return
	Conditions time.Duration // from there to the last condition
	Stale      int           // accepted writes of a process that did not hold the Lease
	Events     int           // that arrived, of as many as there are Deployments

	// Of the first leader, after the end of its Lease: requests to read, and writes
	// that the API server refused or its own guard did.
	Reads, Refused, Guarded int
}

// Scenario is a fault and what follows.
type Scenario struct {
	name string
	// lead is from the fault to the boundary.
	lead time.Duration
	// amid is a fault as soon as the first count of the boundary has changed.
	amid  bool
	fault func(*trial) error
	// repair ends the fault: after the outage, or else when all is right.
	repair func(context.Context, *trial) error
	outage bool
	exit   int // of the first leader, -1 where a signal kills it
}

const frozen = "SIGSTOP of the leader, SIGCONT when its successor has done the work"

// Replicas are the scenarios in which a replica, or its network, fails.
var Replicas = []Scenario{
	{
		name: "SIGKILL of the leader", lead: time.Second, exit: -1,
		fault: func(t *trial) error { return t.leader.Signal(syscall.SIGKILL) },
	},
	{
		name: frozen, lead: time.Second, exit: 1,
		fault:  func(t *trial) error { return t.leader.Signal(syscall.SIGSTOP) },
		repair: func(_ context.Context, t *trial) error { return t.leader.Signal(syscall.SIGCONT) },
	},
	{
		name: "SIGTERM of the leader", lead: time.Second / 2,
		fault: func(t *trial) error { return t.leader.Signal(syscall.SIGTERM) },
	},
	{
		name: "SIGTERM of the leader amid the boundary's writes", amid: true,
		fault: func(t *trial) error { return t.leader.Signal(syscall.SIGTERM) },
	},
	{
		name: "leader cut off from the API server, then healed", lead: time.Second, exit: 1,
		fault:  func(t *trial) error { t.link.cut(); return nil },
		repair: func(_ context.Context, t *trial) error { t.link.heal(); return nil },
	},
}

// ControlPlane are those in which no replica can do anything.
var ControlPlane = []Scenario{
	{
		name: "API server away", lead: time.Second, outage: true, exit: 1,
		fault:  func(t *trial) error { t.plane.KillPart(cluster.APIServer); return nil },
		repair: func(ctx context.Context, t *trial) error { return t.restart(ctx, cluster.APIServer) },
	},
	{
		name: "etcd away", lead: time.Second, outage: true, exit: 1,
		fault:  func(t *trial) error { t.plane.KillPart(cluster.Etcd); return nil },
		repair: func(ctx context.Context, t *trial) error { return t.restart(ctx, cluster.Etcd) },
	},
}

// bench is a run in progress.
type bench struct {
	Options
	plane *cluster.Cluster
	log   func(format string, args ...any)
}

// Run starts a control plane of its own and goes through the scenarios on it, as often
// as told. The outcomes are by scenario, then by run.
func Run(ctx context.Context, o Options, scenarios ...Scenario) ([][]Outcome, error) {
	dir, err := os.MkdirTemp("", "schedule-night-failover-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	plane, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: o.Log, Storage: true})
	if err != nil {
		return nil, err
	}
	defer plane.Stop()
	begun := time.Now()
	b := &bench{Options: o, plane: plane, log: func(format string, args ...any) {
		fmt.Fprintf(o.Log, "%6.1fs  "+format+"\n", append([]any{time.Since(begun).Seconds()}, args...)...)
	}}
	if err := plane.Apply(ctx, o.Deploy); err != nil {
		return nil, err
	}
	if err := b.makeDeployments(ctx); err != nil {
		return nil, err
	}
	outcomes := make([][]Outcome, len(scenarios))
	for run := range o.Runs {
		for i, s := range scenarios {
			outcome, err := b.try(ctx, s, fmt.Sprintf("run-%d-%d", run, i))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			b.log("%+v", *outcome)
			outcomes[i] = append(outcomes[i], *outcome)
		}
	}
	return outcomes, nil
}

func place(i int) (namespace, name string) {
	return fmt.Sprintf("team-%d", i%namespaces), fmt.Sprintf("web-%02d", i)
}

func (b *bench) makeDeployments(ctx context.Context) error {
	for i := range namespaces {
		ns, _ := place(i)
		if _, err := b.plane.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making a namespace: %w", err)
		}
	}
	for i := range deployments {
		ns, name := place(i)
		labels := map[string]string{"app": name}
		_, err := b.plane.Client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				prefix + "on": "true", prefix + "expected": strconv.Itoa(expected), prefix + "window": "00:00-24:00",
			}},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](expected),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making a Deployment: %w", err)
		}
	}
	return nil
}

// trial is one scenario under way.
type trial struct {
	*bench
	leader, standby *candidate
	link            *link     // between the leader and the API server
	boundary        time.Time // at which all Deployments go to sleep
	fault           time.Time
	back            time.Time // when the Lease could be read again, after an outage
}

// candidate is a process that campaigns for the Lease.
type candidate struct {
	*program.Process
	credential string // that the audit log knows it by
}

// try goes through one scenario, with two new processes.
func (b *bench) try(ctx context.Context, s Scenario, name string) (_ *Outcome, err error) {
	b.log("%s", s.name)
	t := &trial{bench: b}
	if t.link, err = newLink(strings.TrimPrefix(b.plane.Config.Host, "https://")); err != nil {
		return nil, err
	}
	defer t.link.close()
	if t.leader, err = b.start(ctx, name+"-leader", "https://"+t.link.address()); err != nil {
		return nil, err
	}
	defer t.leader.Kill()
	if err := t.leader.Until(ctx, func() bool { return strings.Contains(t.leader.Log(), "Starting workers") }); err != nil {
		return nil, err
	}
	if t.standby, err = b.start(ctx, name+"-standby", b.plane.Config.Host); err != nil {
		return nil, err
	}
	defer t.standby.Kill()
	for within := prepareTime; time.Until(t.boundary) <= s.lead; within *= 2 {
		if err := t.prepare(ctx, within+s.lead); err != nil {
			return nil, err
		}
	}
	if err := t.play(ctx, s); err != nil {
		return nil, err
	}
	if err := t.awaitEvents(ctx); err != nil {
		return nil, err
	}
	if err := t.standby.Stop(); err != nil {
		return nil, err
	}
	outcome, err := t.outcome(s)
	if err != nil {
		return nil, fmt.Errorf("%w\nthe leader:\n%s\nthe standby:\n%s", err, t.leader.Log(), t.standby.Log())
	}
	return outcome, nil
}

// prepare makes all Deployments awake until a boundary in the given time.
func (t *trial) prepare(ctx context.Context, within time.Duration) error {
	t.boundary = time.Now().Add(within + time.Second).Truncate(time.Second).UTC()
	until := t.boundary.Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, prefix+"awake-until", until)
	for i := range deployments {
		ns, name := place(i)
		if _, err := t.plane.Client.AppsV1().Deployments(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("moving the boundary: %w", err)
		}
	}
	ctx, cancel := context.WithDeadline(ctx, t.boundary)
	defer cancel()
	err := t.await(ctx, "awake until the boundary", deployments, func(d *appsv1.Deployment) bool {
		c := asleep(d)
		return *d.Spec.Replicas == expected && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, until)
	})
	if time.Now().After(t.boundary) {
		return nil // for the caller to see
	}
	return err
}

// play lets the fault happen, and returns when it is over and all is right.
func (t *trial) play(ctx context.Context, s Scenario) error {
	if err := sleep(ctx, time.Until(t.boundary.Add(-s.lead))); err != nil {
		return err
	}
	if s.amid {
		if err := t.await(ctx, "going to sleep", 1, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 }); err != nil {
			return err
		}
	}
	t.fault = time.Now()
	if err := s.fault(t); err != nil {
		return err
	}
	right := func() error {
		return t.await(ctx, "asleep", deployments, func(d *appsv1.Deployment) bool {
			return *d.Spec.Replicas == 0 && asleep(d).Status == corev1.ConditionTrue
		})
	}
	if s.outage {
		if err := sleep(ctx, t.Outage); err != nil {
			return err
		}
	} else if err := right(); err != nil {
		return err
	}
	if s.repair != nil {
		if err := s.repair(ctx, t); err != nil {
			return err
		}
	}
	if s.outage {
		if err := right(); err != nil {
			return err
		}
	}
	if code, err := t.leader.Wait(settleLimit); err != nil || code != s.exit {
		return fmt.Errorf("the leader exited %d, want %d: %w\n%s", code, s.exit, err, t.leader.Log())
	}
	return t.link.drained(ctx)
}

// restart starts a part of the control plane again.
func (t *trial) restart(ctx context.Context, part string) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	back := make(chan time.Time, 1)
	go func() { // it answers some time before it calls itself ready
		for sleep(ctx, time.Millisecond) == nil {
			if t.readsLease(ctx) {
				back <- time.Now()
				return
			}
		}
	}()
	if err := t.plane.StartPart(ctx, part); err != nil {
		return err
	}
	select {
	case t.back = <-back:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the API server to answer: %w", ctx.Err())
	}
}

// readsLease tells whether the API server can read the Lease from etcd.
func (t *trial) readsLease(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := t.plane.Client.CoordinationV1().Leases(account).Get(ctx, account, metav1.GetOptions{})
	return err == nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await polls until n Deployments are as wanted: a watch would need its time to come
// back after an outage.
func (t *trial) await(ctx context.Context, what string, n int, ok func(*appsv1.Deployment) bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		count := 0
		list, err := t.plane.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				if ok(&list.Items[i]) {
					count++
				}
			}
			if count >= n {
				return nil
			}
		}
		if sleep(ctx, poll) != nil {
			return fmt.Errorf("%d of %d Deployments %s, error %w", count, n, what, errors.Join(err, ctx.Err()))
		}
	}
}

// awaitEvents waits for the events that tell of the boundary, as long as one would:
// after an outage they come later than all else.
func (t *trial) awaitEvents(ctx context.Context) error {
	for deadline := time.Now().Add(eventsLimit); time.Now().Before(deadline); {
		requests, err := t.plane.Audited(accountUser)
		if err != nil {
			return err
		}
		if t.arrived(requests) >= deployments {
			return nil
		}
		if err := sleep(ctx, 5*poll); err != nil {
			return err
		}
	}
	return nil // the outcome tells
}

// arrived counts the events since the boundary.
func (t *trial) arrived(requests []*cluster.Request) (n int) {
	for _, r := range requests {
		if r.Verb == "create" && r.What() == "events" && r.Accepted() && !r.Received.Before(t.boundary) {
			n++
		}
	}
	return n
}

// asleep is our condition, the zero value without one.
func asleep(d *appsv1.Deployment) (c appsv1.DeploymentCondition) {
	for _, c := range d.Status.Conditions {
		if c.Type == prefix+"Asleep" {
			return c
		}
	}
	return c
}

// start starts a process under the ServiceAccount, with a token of its own.
func (b *bench) start(ctx context.Context, name, server string) (*candidate, error) {
	path, err := b.plane.ServiceAccountKubeconfig(ctx, account, account)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	here := config.Contexts[config.CurrentContext]
	config.Clusters[here.Cluster].Server = server
	path = filepath.Join(b.plane.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	credential, err := credentialOf(config.AuthInfos[here.AuthInfo].Token)
	if err != nil {
		return nil, err
	}
	p, err := program.Start(b.Program, filepath.Join(b.plane.Dir, name+".log"), "--kubeconfig", path, "-v", "2",
		"--leader-elect-lease-duration", b.LeaseDuration.String(), "--leader-elect-renew-deadline", b.RenewDeadline.String(), "--leader-elect-retry-period", b.RetryPeriod.String())
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx); err != nil {
		p.Kill()
		return nil, err
	}
	return &candidate{p, credential}, nil
}

// credentialOf is what the audit log calls a ServiceAccount's token.
func credentialOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("the token is no JWT")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	var claims struct{ JTI string }
	if err := json.Unmarshal(text, &claims); err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return "JTI=" + claims.JTI, nil
}

// outcome reads from the audit log what came of the scenario.
func (t *trial) outcome(s Scenario) (*Outcome, error) {
	requests, err := t.plane.Audited(accountUser)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(requests, func(a, b *cluster.Request) int { return a.Received.Compare(b.Received) })
	o := &Outcome{Scenario: s.name, Events: t.arrived(requests), Guarded: strings.Count(t.leader.Log(), "not the leader: refusing to write")}
	leader, standby := &tenure{credential: t.leader.credential}, &tenure{credential: t.standby.credential}
	scales := 0
	var taken, right, conditions time.Time
	for _, r := range requests {
		own, other := leader, standby
		switch credential := r.User.Extra[credentialID]; {
		case slices.Equal(credential, []string{standby.credential}):
			own, other = standby, leader
		case !slices.Equal(credential, []string{leader.credential}):
			continue
		}
		late := r.Received.After(own.end)
		holds := false
		if r.Writes() && r.Accepted() && r.What() == "leases" {
			if holds, err = own.renew(other, r); err != nil {
				return nil, err
			}
			if holds && own == standby && taken.IsZero() {
				taken = r.Answered
			}
		}
		switch {
		case strings.HasPrefix(r.What(), "selfsubject"): // a question, though in the form of a write
		case holds: // the beginning of a tenure, or more of it
		case late && r.Writes() && r.Accepted():
			o.Stale++
			t.log("STALE: %s %s by %s, received %v after the end of its Lease", r.Verb, r.What(), r.User.Extra[credentialID], r.Received.Sub(own.end))
		case late && own == leader && !own.end.IsZero() && r.Writes():
			o.Refused++
		case late && own == leader && !own.end.IsZero():
			o.Reads++
		}
		if r.Received.Before(t.boundary) || !r.Accepted() {
			continue
		}
		switch r.Verb + " " + r.What() {
		case "update deployments/scale":
			scales++
			right = latest(right, r.Answered)
		case "patch deployments/status":
			conditions = latest(conditions, r.Answered)
		}
	}
	if scales != deployments {
		return nil, fmt.Errorf("%d scale writes for %d Deployments", scales, deployments)
	}
	if taken.IsZero() {
		return nil, errors.New("the standby never took the Lease")
	}
	due := t.boundary
	if s.outage {
		due = t.back
	}
	o.Takeover, o.Right, o.Due, o.Conditions = taken.Sub(t.fault), right.Sub(t.fault), right.Sub(due), conditions.Sub(due)
	return o, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tenure is how long a process may write: until its lease duration after the last
// renewal has passed, it has released the Lease, or another holds it. It is counted
// from when the API server received the request, the earliest of all ways to count.
type tenure struct {
	credential string
	end        time.Time // zero before the first
}

// renew takes account of an accepted write to the Lease. It tells whether the process
// holds the Lease by it, as opposed to having released it.
func (t *tenure) renew(other *tenure, r *cluster.Request) (bool, error) {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(r.Body, &lease); err != nil {
		return false, fmt.Errorf("reading a Lease in the audit log: %w", err)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		if t.end.After(r.Received) {
			t.end = r.Received
		}
		return false, nil
	}
	if other.end.After(r.Received) {
		other.end = r.Received
	}
	t.end = r.Received.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	return true, nil
}

// Table is the outcomes as Markdown: min / median / max of the runs.
func Table(o Options, outcomes [][]Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "RUNS=%d, %d Deployments, lease duration %v, renew deadline %v, retry period %v, outages of %v\n\n",
		o.Runs, deployments, o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.Outage)
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row("seconds: min / median / max", "takeover after the fault", "counts right after the fault", "counts right after the boundary, or the return", "conditions right after the same",
		"stale writes", "events", "of the first leader after its Lease: reads, writes refused by the API server, by its own guard")
	row(slices.Repeat([]string{"---"}, 8)...)
	for _, runs := range outcomes {
		seconds := func(of func(*Outcome) time.Duration) string {
			return spread(runs, func(o *Outcome) float64 { return of(o).Seconds() }, 2)
		}
		count := func(of func(*Outcome) int) string {
			return spread(runs, func(o *Outcome) float64 { return float64(of(o)) }, 0)
		}
		stale := 0
		for i := range runs {
			stale += runs[i].Stale
		}
		row(runs[0].Scenario,
			seconds(func(o *Outcome) time.Duration { return o.Takeover }),
			seconds(func(o *Outcome) time.Duration { return o.Right }),
			seconds(func(o *Outcome) time.Duration { return o.Due }),
			seconds(func(o *Outcome) time.Duration { return o.Conditions }),
			strconv.Itoa(stale),
			count(func(o *Outcome) int { return o.Events }),
			count(func(o *Outcome) int { return o.Reads })+", "+count(func(o *Outcome) int { return o.Refused })+", "+count(func(o *Outcome) int { return o.Guarded }))
	}
	return b.String()
}

// spread is the least, the median and the greatest, or the one that all are.
func spread(runs []Outcome, of func(*Outcome) float64, decimals int) string {
	var list []float64
	for i := range runs {
		list = append(list, of(&runs[i]))
	}
	slices.Sort(list)
	text := func(f float64) string { return strconv.FormatFloat(f, 'f', decimals, 64) }
	low, high := text(list[0]), text(list[len(list)-1])
	if low == high {
		return low
	}
	return low + " / " + text(list[len(list)/2]) + " / " + high
}
