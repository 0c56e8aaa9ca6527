//go:build fire

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

var (
	fireNights  = flag.Int("nights", 40, "simulated nights under fire")
	fireSeed    = flag.Uint64("seed", 0, "of all that is drawn; 0: another one each time")
	fireCluster = flag.String("cluster", "bin/cluster", "the command that keeps the control plane")
)

const (
	// fireFlags makes takeovers short. Between the last moment at which a process may
	// write and the end of its Lease are 1.5 s: more than a request is delayed.
	fireFlags = "--leader-elect-lease-duration=3s --leader-elect-renew-deadline=1500ms --leader-elect-retry-period=400ms" +
		" --resync=1s --listen-address= --exclude-namespaces= --kube-api-qps=-1"
	fireDelay = 700 * time.Millisecond

	fireTick = 20 * time.Millisecond // of this machine, between two settings of the clock
	// calmStep is how far the simulated clock goes in a tick while no fault happens.
	calmStep = 10 * time.Second
	// calmLimit is how long all may take to become right once the faults have stopped.
	// Most of it is client-go's: a watch that has failed often waits up to a minute.
	calmLimit = 2 * time.Minute
)

// subject is a Deployment and what we know of it.
type subject struct {
	namespace, name string
	managed         bool // has opted in at some time
	// mode is what its annotations say: "scheduled", "invalid" or "out".
	mode            string
	annotations     map[string]string
	schedule        *nighttest.Case
	expected, night int32
	wakeOnly        bool
	// touched tells that its owner or somebody else has changed it since it was last
	// seen right; asleep and replicas are from then.
	touched  bool
	asleep   bool
	replicas int32
	// unwritten tells that the cluster may not have what is said here.
	unwritten, remade bool
	// chosen are the counts that the owner or somebody else has ever wanted in the day.
	chosen map[int32]bool
	uid    types.UID
}

func (s *subject) key() string { return s.namespace + "/" + s.name }

// sleeps tells whether it should. In a wake delay that hangs on whether it has slept before,
// and only its record can tell.
func (s *subject) sleeps(record *workload.Record, now time.Time) bool {
	return s.schedule.Asleep(now) && (record.Asleep() || !s.schedule.Delayed(now))
}

// fire is a run of the test.
type fire struct {
	*testing.T
	rng      *rand.Rand
	seed     uint64
	zones    *nighttest.Zones
	storage  *storage
	admin    *kubernetes.Clientset
	subjects []*subject
	replicas []*replica
	audit    *auditor

	now    time.Time // simulated
	faults map[string]int
	calms  []time.Duration
	wakes  int // seen right on both sides
}

// TestFire lets the controller go through nights in which everything around it fails,
// and checks from the outside, by the API server and its audit log, that
//
//   - once the faults have stopped, every Deployment has the right count and condition;
//   - nothing is written to a Deployment that never opted in, and nothing but counts,
//     conditions, events and the Lease at all;
//   - no write comes from a process whose Lease has ended;
//   - no count is written that no schedule of that very Deployment ever asked for.
//
// The controllers are processes of their own on etcd and an API server, with the rights
// of deploy/. Their clock is simulated, so a night takes seconds; the Lease goes by the
// machine's. What is right is computed by the reference of the property tests, which walks
// from minute to minute. All that is drawn comes from the seed; how the processes
// interleave does not.
func TestFire(t *testing.T) {
	f := &fire{T: t, seed: *fireSeed, zones: nighttest.LoadZones(t), faults: map[string]int{}}
	if f.seed == 0 {
		f.seed = uint64(time.Now().UnixNano())
	}
	f.rng = rand.New(rand.NewPCG(f.seed, 0))
	t.Logf("make fire NIGHTS=%d SEED=%d", *fireNights, f.seed)
	// In spring and autumn the clocks change.
	f.now = time.Date(2026, time.Month(3+7*f.rng.IntN(2)), 1+f.rng.IntN(25), f.rng.IntN(24), 0, 0, 0, time.UTC)
	f.setUp()
	for _, r := range f.replicas {
		if err := r.start(f.now); err != nil {
			t.Fatal(err)
		}
	}
	f.calm() // they can do it without faults
	for night := range *fireNights {
		f.night()
		f.calm()
		if t.Failed() {
			t.Fatalf("failed in night %d", night+1)
		}
		if (night+1)%10 == 0 {
			t.Logf("night %d: %s, %d scale writes, %d faults", night+1, f.now.Format(time.DateOnly), f.audit.scales, sum(f.faults))
		}
	}
	for _, r := range f.replicas {
		r.end(syscall.SIGTERM)
		if r.err != nil {
			t.Errorf("%s did not stop in good order: %v", r.name, r.err)
		}
	}
	f.check()
	f.summary()
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func (f *fire) setUp() {
	command, err := filepath.Abs(*fireCluster)
	if err != nil {
		f.Fatal(err)
	}
	f.storage = startStorage(f.T, command)
	f.admin, err = kubernetes.NewForConfig(f.storage.config)
	if err != nil {
		f.Fatal(err)
	}
	if out, err := exec.Command(f.storage.kubectl, "--kubeconfig", f.storage.kubeconfig(), "apply", "-f", "deploy").CombinedOutput(); err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
	f.audit = &auditor{
		path: filepath.Join(f.storage.dir, "audit.log"), user: "system:serviceaccount:schedule-night:schedule-night",
		counts: map[types.UID]map[int32]bool{}, nights: map[types.UID]map[int32]bool{}, last: map[types.UID]int32{}, managed: map[string]bool{}, identity: map[string]string{},
	}
	ctx := f.Context()
	for _, namespace := range []string{"shop", "blog", "lab"} {
		if _, err := f.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			f.Fatal(err)
		}
		for i := range 10 {
			s := &subject{namespace: namespace, name: "app-" + strconv.Itoa(i), managed: i < 8, mode: "out", unwritten: true, remade: true, touched: true}
			f.subjects = append(f.subjects, s)
			if s.managed {
				f.redraw(s)
			}
			if err := f.write(ctx, s); err != nil {
				f.Fatal(err)
			}
		}
	}
	expiry := int64((10 * time.Hour).Seconds())
	token, err := f.admin.CoreV1().ServiceAccounts("schedule-night").CreateToken(ctx, "schedule-night",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expiry}}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		f.replicas = append(f.replicas, newReplica(f.T, f.storage, name, token.Status.Token, fireFlags))
	}
}

// redraw gives a Deployment other annotations.
func (f *fire) redraw(s *subject) {
	s.unwritten, s.touched = true, true
	s.mode, s.schedule, s.wakeOnly = "scheduled", nil, false
	s.expected, s.night = int32(1+f.rng.IntN(9)), 0
	switch f.rng.IntN(12) {
	case 0:
		s.mode = "out"
		s.annotations = map[string]string{night.AnnotationExpected: strconv.Itoa(int(s.expected))}
		if f.rng.IntN(2) == 0 {
			s.annotations[night.AnnotationOn] = "false"
		}
		return
	case 1:
		s.mode = "invalid"
		s.annotations = map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: strconv.Itoa(int(s.expected)), night.AnnotationWindow: "21:00-21:00"}
		return
	}
	zone := f.zones.Names[f.rng.IntN(len(f.zones.Names))]
	if f.rng.IntN(2) == 0 { // where most people live
		zone = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "America/Santiago"}[f.rng.IntN(6)]
	}
	from, to := f.now.AddDate(0, 0, -6), f.now.AddDate(0, 0, 14)
	s.schedule = rapid.Custom(func(t *rapid.T) *nighttest.Case {
		return nighttest.NewDrawer(t, f.now.In(f.zones.ByName[zone]), 6).Schedule(f.zones, zone, func(loc *time.Location) *nighttest.Clock { return nighttest.WalkClock(loc, from, to) })
	}).Example(int(f.rng.Uint32() >> 1))
	s.annotations = maps.Clone(s.schedule.Annotations)
	s.annotations[night.AnnotationTimezone] = zone // not everybody's default
	s.annotations[night.AnnotationExpected] = strconv.Itoa(int(s.expected))
	if f.rng.IntN(3) == 0 {
		s.night = int32(f.rng.IntN(3))
		s.annotations[night.AnnotationNightReplicas] = strconv.Itoa(int(s.night))
	}
	if f.rng.IntN(4) == 0 {
		s.wakeOnly = true
		s.annotations[night.AnnotationDaytime] = string(night.DaytimeWakeOnly)
	}
}

// write makes the cluster have what we say of a Deployment.
func (f *fire) write(ctx context.Context, s *subject) error {
	deployments := f.admin.AppsV1().Deployments(s.namespace)
	if s.remade {
		err := deployments.Delete(ctx, s.name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		labels := map[string]string{"app": s.name}
		d, err := deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: s.name},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To(int32(f.rng.IntN(4))),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
				},
			},
		}, metav1.CreateOptions{FieldManager: "owner"})
		if err != nil {
			return err
		}
		s.remade, s.uid, s.touched = false, d.UID, true
		s.chosen = map[int32]bool{*d.Spec.Replicas: true}
		f.audit.counts[s.uid] = map[int32]bool{}
		f.audit.nights[s.uid] = map[int32]bool{}
	}
	if s.managed {
		f.audit.managed[s.key()] = true
		f.audit.counts[s.uid][s.expected] = true
		f.audit.counts[s.uid][s.night] = true
		if s.mode == "scheduled" {
			f.audit.nights[s.uid][s.night] = true
		}
		s.chosen[s.expected] = true
	}
	annotations := map[string]any{}
	for _, name := range night.AnnotationNames {
		annotations[name] = nil
		if value, ok := s.annotations[name]; ok {
			annotations[name] = value
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = deployments.Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "owner"})
	s.unwritten = err != nil
	return err
}

// set is somebody else who sets a count.
func (f *fire) set(ctx context.Context, s *subject, replicas int32) {
	s.touched = true
	s.chosen[replicas] = true
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	_, _ = f.admin.AppsV1().Deployments(s.namespace).UpdateScale(ctx, s.name, scale, metav1.UpdateOptions{FieldManager: "somebody"}) // tries while the API server is away too
}

// fault begins, and returns what ends it.
type fault struct {
	name   string
	weight int
	begin  func(f *fire) (end func())
}

// faults are drawn by weight: those that take long are rare.
var faults = []fault{
	{"leader killed", 3, func(f *fire) func() { return f.leader().away(syscall.SIGKILL) }},
	{"leader terminated", 3, func(f *fire) func() { return f.leader().away(syscall.SIGTERM) }},
	{"leader stopped, and continued", 3, func(f *fire) func() {
		r := f.leader()
		r.signal(syscall.SIGSTOP)
		return func() { r.signal(syscall.SIGCONT) }
	}},
	{"leader cut off", 4, func(f *fire) func() { return f.leader().in(trouble{dropped: true}) }},
	{"leader slow", 3, func(f *fire) func() { return f.leader().in(trouble{delay: fireDelay}) }},
	{"connections reset", 3, func(f *fire) func() { return f.any().in(trouble{resets: 0.1 + 0.5*f.rng.Float64()}) }},
	{"429", 2, func(f *fire) func() { return f.any().in(trouble{refusals: 0.5, code: 429}) }},
	{"500", 2, func(f *fire) func() { return f.any().in(trouble{refusals: 0.7, code: 500}) }},
	{"503", 2, func(f *fire) func() { return f.any().in(trouble{refusals: 0.7, code: 503}) }},
	{"watches cut", 3, func(f *fire) func() {
		r := f.leader()
		r.proxy.cutWatches()
		return r.proxy.cutWatches
	}},
	{"410 Gone", 2, func(f *fire) func() {
		r := f.leader()
		end := r.in(trouble{gone: true})
		r.proxy.cutWatches()
		return end
	}},
	{"stale lists", 2, func(f *fire) func() {
		r := f.leader()
		target, transport := f.target()
		if err := r.proxy.takeSnapshot(target, transport); err != nil {
			return func() {} // it has not asked for anything yet
		}
		return func() { // the world has moved on meanwhile
			end := r.in(trouble{stale: true})
			r.proxy.cutWatches()
			time.AfterFunc(time.Second, end)
		}
	}},
	{"API server killed", 1, func(f *fire) func() { return f.part("kill", "start", "kube-apiserver") }},
	{"API server restarted", 1, func(f *fire) func() { return f.part("stop", "start", "kube-apiserver") }},
	{"API server stopped, and continued", 1, func(f *fire) func() { return f.part("pause", "resume", "kube-apiserver") }},
	{"etcd killed", 1, func(f *fire) func() { return f.part("kill", "start", "etcd") }},
	{"etcd stopped, and continued", 1, func(f *fire) func() { return f.part("pause", "resume", "etcd") }},
	{"clock stepped", 4, func(f *fire) func() {
		f.now = f.now.Add(time.Duration(f.rng.Int64N(int64(2*time.Hour))) - time.Hour)
		return func() {}
	}},
	{"somebody fights", 4, func(f *fire) func() {
		ctx, stop := context.WithCancel(f.Context())
		s, replicas := f.managed(), int32(20+f.rng.IntN(5))
		s.touched = true
		var done sync.WaitGroup
		done.Go(func() {
			for ctx.Err() == nil {
				f.set(ctx, s, replicas)
				select {
				case <-ctx.Done():
				case <-time.After(5 * fireTick):
				}
			}
		})
		return func() { stop(); done.Wait() }
	}},
}

// leader is the replica that holds the Lease, as far as is known, else any.
func (f *fire) leader() *replica {
	if err := f.audit.read(); err != nil {
		f.Fatal(err)
	}
	sender := f.audit.leader()
	for _, r := range f.replicas {
		if strings.HasPrefix(sender, "schedule-night/"+r.name+".") {
			return r
		}
	}
	return f.any()
}

// target is the API server, and a way to it as nobody.
func (f *fire) target() (*url.URL, http.RoundTripper) {
	target, err := url.Parse(f.storage.config.Host)
	if err != nil {
		f.Fatal(err)
	}
	transport, err := f.storage.transport()
	if err != nil {
		f.Fatal(err)
	}
	return target, transport
}

func (f *fire) any() *replica { return f.replicas[f.rng.IntN(len(f.replicas))] }

func (f *fire) managed() *subject {
	for {
		if s := f.subjects[f.rng.IntN(len(f.subjects))]; s.managed {
			return s
		}
	}
}

// in puts a replica into trouble until the returned function is called.
func (r *replica) in(t trouble) func() {
	r.proxy.set(t)
	return func() { r.proxy.set(trouble{}) }
}

// away ends a replica's process and starts no other until the returned function is called.
func (r *replica) away(signal syscall.Signal) func() {
	r.heldUp = true
	r.signal(signal)
	return func() { r.heldUp = false }
}

// part breaks a part of the control plane, and mends it.
func (f *fire) part(broken, mended, name string) func() {
	if err := f.storage.order(broken + " " + name); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := f.storage.order(mended + " " + name); err != nil {
			f.Fatal(err)
		}
	}
}

// night lets a day and a night pass, more or less, in a few seconds in which things
// go wrong, and ends all faults.
func (f *fire) night() {
	ctx := f.Context()
	ticks := 60 + f.rng.IntN(120)
	step := (18*time.Hour + time.Duration(f.rng.Int64N(int64(12*time.Hour)))) / time.Duration(ticks)
	type event struct {
		fault      *fault
		begin, end int // ticks
		ending     func()
	}
	var events []*event
	used := map[string]bool{}
	for range []int{0, 1, 1, 2, 2, 3, 4}[f.rng.IntN(7)] {
		x := f.draw()
		// Two of a kind would end each other, and with a part away others say nothing.
		kind := "proxy"
		if strings.HasPrefix(x.name, "API") || strings.HasPrefix(x.name, "etcd") {
			kind = "part"
		} else if x.weight == 4 && x.name != "leader cut off" {
			kind = x.name
		}
		begin := f.rng.IntN(ticks)
		if !used[kind] {
			used[kind] = true
			events = append(events, &event{fault: x, begin: begin, end: min(begin+20+f.rng.IntN(ticks), ticks+100)})
		}
	}
	last := ticks
	for _, e := range events {
		last = max(last, e.end)
	}
	for tick := 0; tick <= last; tick++ {
		for _, e := range events {
			if e.begin == tick {
				e.ending = e.fault.begin(f)
				f.faults[e.fault.name]++
			}
			if e.end == tick {
				e.ending()
			}
		}
		if f.rng.IntN(8) == 0 {
			s := f.managed()
			switch n := f.rng.IntN(10); {
			case n < 5:
				f.redraw(s)
			case n < 6:
				f.redraw(s)
				s.remade = true
			default:
				f.short(ctx, func(ctx context.Context) { f.set(ctx, s, int32(f.rng.IntN(12))) })
			}
			if s.unwritten {
				f.short(ctx, func(ctx context.Context) { _ = f.write(ctx, s) }) // if not now, then when all is calm
			}
		}
		if tick < ticks {
			f.advance(step)
		} else {
			f.advance(calmStep)
		}
	}
}

// short bounds what the owners do: they do not wait for an API server that is away.
func (f *fire) short(ctx context.Context, do func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	do(ctx)
}

func (f *fire) draw() *fault {
	total := 0
	for i := range faults {
		total += faults[i].weight
	}
	n := f.rng.IntN(total)
	for i := range faults {
		if n -= faults[i].weight; n < 0 {
			return &faults[i]
		}
	}
	panic("unreachable")
}

// advance moves the simulated clock, and lets a tick pass.
func (f *fire) advance(by time.Duration) {
	f.now = f.now.Add(by)
	for _, r := range f.replicas {
		if err := r.start(f.now); err != nil {
			f.Fatal(err)
		}
		r.tell(f.now)
	}
	time.Sleep(fireTick) // the pace of the simulated clock
}

// calm waits until all is right, at the pace of a quiet clock.
func (f *fire) calm() {
	ctx := f.Context()
	for _, s := range f.subjects { // windows end where their reference does
		if s.schedule != nil && s.schedule.Clock.Until.Before(f.now.AddDate(0, 0, 3)) {
			f.redraw(s)
		}
	}
	begun := time.Now()
	var wrong []string
	for time.Since(begun) < calmLimit {
		unwritten := false
		for _, s := range f.subjects {
			if s.unwritten {
				unwritten = f.write(ctx, s) != nil || unwritten
			}
		}
		f.advance(calmStep)
		if unwritten {
			continue
		}
		if wrong = f.wrong(ctx); len(wrong) == 0 {
			f.calms = append(f.calms, time.Since(begun))
			f.check()
			return
		}
	}
	f.Errorf("%v after the faults have stopped, at %s, not all is right:\n%s", calmLimit, f.now.Format(time.RFC3339), strings.Join(wrong, "\n"))
	f.check()
	for _, r := range f.replicas {
		f.Logf("replica %s, running: %v, exits: %v\n%s", r.name, r.running(), r.exits, r.tail())
	}
}

// wrong says which Deployments are not as they should be now.
func (f *fire) wrong(ctx context.Context) []string {
	now := f.now
	list, err := f.admin.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	have := map[string]*appsv1.Deployment{}
	for i := range list.Items {
		have[list.Items[i].Namespace+"/"+list.Items[i].Name] = &list.Items[i]
	}
	for _, s := range f.subjects {
		d := have[s.key()]
		if d == nil {
			wrong = append(wrong, s.key()+" is not there")
		} else if err := f.right(s, d, now); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s %s: %v\n    %v", s.key(), s.mode, err, s.annotations))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	for _, s := range f.subjects {
		s.touched = false
		asleep := s.mode == "scheduled" && s.sleeps(workloadtest.Of(have[s.key()]).Record, now)
		if s.asleep && !asleep && s.mode == "scheduled" {
			f.wakes++
		}
		s.asleep, s.replicas = asleep, ptr.Deref(have[s.key()].Spec.Replicas, 1)
	}
	return nil
}

// right tells what is wrong with a Deployment, nil for nothing.
func (f *fire) right(s *subject, d *appsv1.Deployment, now time.Time) error {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	condition := workloadtest.Of(d).Record
	status := corev1.ConditionStatus("none")
	if condition != nil {
		status = condition.Status
	}
	mode := s.mode
	if mode == "scheduled" && s.schedule.AwakeUntil.After(now) && s.schedule.AsleepUntil.After(now) {
		mode = "invalid"
	}
	// By our hand, and less than anybody has ever wanted in the day.
	last, ok := f.audit.last[s.uid]
	orphaned := ok && last == replicas && f.audit.nights[s.uid][last]
	for wanted := range s.chosen {
		orphaned = orphaned && last < wanted
	}
	switch mode {
	case "out":
		switch {
		case orphaned && !condition.Asleep():
			return fmt.Errorf("left at the night's %d replicas, condition %v", replicas, condition)
		case condition.Asleep():
			return fmt.Errorf("not released: %v", condition)
		case !s.managed && condition != nil:
			return fmt.Errorf("condition %v on a Deployment that never opted in", condition)
		case condition != nil && condition.Reason == workload.ReasonReleased && !s.touched && replicas != s.replicas:
			if record, _ := workload.ParseApplied(condition.Message); record.Replicas != replicas {
				return fmt.Errorf("%d replicas, released at %d", replicas, record.Replicas)
			}
		}
		return nil
	case "invalid":
		if status != corev1.ConditionUnknown {
			return fmt.Errorf("condition %s, want Unknown", status)
		}
		return nil
	}
	want, wantStatus := s.expected, corev1.ConditionFalse
	if s.sleeps(condition, now) {
		want, wantStatus = s.night, corev1.ConditionTrue
	}
	switch {
	case status != wantStatus:
		return fmt.Errorf("condition %s, want %s", status, wantStatus)
	case wantStatus == corev1.ConditionFalse && s.wakeOnly:
		// An edit in the day raises nothing, and 0 that somebody has chosen stays 0; what was
		// below stays there until it has slept.
		if orphaned || replicas < want && !s.touched && (s.asleep || replicas != s.replicas) {
			return fmt.Errorf("%d replicas, want at least %d", replicas, want)
		}
	case replicas != want:
		return fmt.Errorf("%d replicas, want %d", replicas, want)
	}
	return nil
}

// check holds what the API server has seen against what must never happen.
func (f *fire) check() {
	f.Helper()
	if err := f.audit.read(); err != nil {
		f.Fatal(err)
	}
	f.audit.settle()
	if len(f.audit.violations) > 0 {
		f.Errorf("what must never happen:\n%s", f.audit.report())
		f.audit.violations = nil
	}
}

// summary prints what happened, as a table.
func (f *fire) summary() {
	slices.Sort(f.calms)
	exits := map[string]int{}
	started := 0
	for _, r := range f.replicas {
		started += r.started
		for how, n := range r.exits {
			exits[how] += n
		}
	}
	var b strings.Builder
	row := func(what string, value any) { fmt.Fprintf(&b, "| %s | %v |\n", what, value) }
	fmt.Fprintf(&b, "| nights | %d |\n| --- | --- |\n", *fireNights)
	row("Deployments that opt in and out; others", fmt.Sprintf("%d; %d", len(f.audit.managed), len(f.subjects)-len(f.audit.managed)))
	row("all right after the faults: median, 99th percentile, longest", fmt.Sprintf("%.1f s, %.1f s, %.1f s",
		f.calms[len(f.calms)/2].Seconds(), f.calms[len(f.calms)*99/100].Seconds(), f.calms[len(f.calms)-1].Seconds()))
	row("wake-ups seen right", f.wakes)
	row("scale writes; status writes; event writes", fmt.Sprintf("%d; %d; %d", f.audit.scales, f.audit.conditions, f.audit.events))
	row("writes that the API server refused, as conflicts and the like", f.audit.refused)
	row("terms of the Lease; processes", fmt.Sprintf("%d; %d", len(f.audit.terms), started))
	for _, how := range slices.Sorted(maps.Keys(exits)) {
		row("processes that ended: "+how, exits[how])
	}
	for _, name := range slices.Sorted(maps.Keys(f.faults)) {
		row("fault: "+name, f.faults[name])
	}
	row("writes by a process whose Lease had ended, to others, or of a count never asked for", f.audit.violated)
	fmt.Print(b.String())
}
