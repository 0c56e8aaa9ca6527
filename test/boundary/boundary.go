// Package boundary measures the controller at the boundaries of a night: how long
// after it the counts change, what that costs the API server, and what the process
// takes. etcd and kube-apiserver alone run beside it, so that the API server is the
// one limit; how fast that is, is measured in the same run.
package boundary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"schedule-night/test/cluster"
	"schedule-night/test/program"
)

const (
	namespaces  = 20
	expected    = 3 // replicas in the day
	condition   = "schedule-night.svc/Asleep"
	optIn       = "schedule-night.svc/on"
	accountUser = "system:serviceaccount:schedule-night:schedule-night"
	settleLimit = 30 * time.Minute
)

// Options choose what is measured.
type Options struct {
	Program, Deploy string  // the built controller; the folder of its manifests
	N               int     // Deployments
	Unannotated     float64 // share of them that is not annotated; boundaries and counts are of the others
	QPS             int     // the controller's --kube-api-qps
	Workers         int     // of the controller, and writers of the ceiling
	Idle            time.Duration
	// Soon has the boundaries come at a second, by annotations, as soon as this machine is
	// ready for them, and not at full minutes by the controller's --window.
	Soon     bool
	Rollouts bool      // run the controller manager too, and roll out at the boundary
	Profiles string    // folder for CPU profiles of the API server; "": none
	Log      io.Writer // for progress
}

// Managed is how many of the Deployments are the controller's.
func (o Options) Managed() int { return o.N - int(float64(o.N)*o.Unannotated) }

// Night is what happened at one boundary.
type Night struct {
	First, P50, P99, Last time.Duration // from the boundary to the change, as a watch sees it
	Scales, Conflicts     int           // accepted scale writes, and refused ones
	Requests              map[string]int
	CPU                   shares // until the last change
}

// processes are what runs at a boundary, but for the controller manager and the like.
var processes = [...]string{cluster.APIServer, cluster.Etcd, "the controller", "this benchmark"}

// shares are what each of the processes took of all processors' time.
type shares [len(processes)]float64

func (s shares) String() string {
	var list []string
	for i, name := range processes {
		if s[i] > 0 {
			list = append(list, fmt.Sprintf("%s %.0f %%", name, s[i]*100))
		}
	}
	return strings.Join(list, ", ")
}

// Result is what Run measured.
type Result struct {
	Options
	Ceilings               []time.Duration // of a scale write to each managed Deployment by a bare loop, before and after
	CeilingCPU             []shares
	Synced                 time.Duration // from the start of the process
	Sleep, Wake            Night
	IdleRequests           map[string]int // while nothing was due
	Events                 int            // that arrived, of two for each managed Deployment
	PeakRSS, SteadyRSS     int64          // bytes
	CPU                    time.Duration
	WrongAfter, Conditions int // Deployments with a wrong count, and with the right condition, at the end
}

// Ceiling is the mean of the bare loops.
func (r *Result) Ceiling() time.Duration {
	var sum time.Duration
	for _, c := range r.Ceilings {
		sum += c
	}
	return sum / time.Duration(len(r.Ceilings))
}

// bench is a run in progress.
type bench struct {
	Options
	plane  *cluster.Cluster
	client *kubernetes.Clientset // takes as little of the processors as the controller's own
	log    func(format string, args ...any)
	watch  *observer
}

// Run starts a control plane of its own and measures one night on it.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Managed() < 1 || o.Unannotated < 0 {
		return nil, fmt.Errorf("of %d Deployments a share of %v not annotated: want from 0 to less than 1", o.N, o.Unannotated)
	}
	b, stop, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer stop()
	return b.run(ctx)
}

// start starts a control plane with the controller's rights. The caller must call stop.
func start(ctx context.Context, o Options) (_ *bench, stop func(), err error) {
	dir, err := os.MkdirTemp("", "schedule-night-boundary-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder: %w", err)
	}
	plane, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: o.Log, Storage: !o.Rollouts})
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	stop = func() {
		plane.Stop()
		os.RemoveAll(dir)
	}
	if err := plane.Apply(ctx, o.Deploy); err != nil {
		stop()
		return nil, nil, err
	}
	config := rest.CopyConfig(plane.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	config.DisableCompression = true
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	begun := time.Now()
	return &bench{Options: o, plane: plane, client: client, log: func(format string, args ...any) {
		fmt.Fprintf(o.Log, "%6.1fs  "+format+"\n", append([]any{time.Since(begun).Seconds()}, args...)...)
	}}, stop, nil
}

func (b *bench) run(ctx context.Context) (*Result, error) {
	r := &Result{Options: b.Options}
	managed := b.Managed()
	b.log("making %d Deployments in %d namespaces, %d of them annotated", b.N, namespaces, managed)
	if err := b.makeDeployments(ctx, ""); err != nil {
		return nil, err
	}
	var err error
	if b.watch, err = observe(ctx, b.client); err != nil {
		return nil, err
	}
	ceiling := func(replicas int32) error { // which must change the counts
		b.profile(ctx, fmt.Sprint("ceiling-", len(r.Ceilings)+1), time.Now())
		measured := b.shares(0)
		took, err := b.ceiling(ctx, replicas)
		r.Ceilings = append(r.Ceilings, took)
		r.CeilingCPU = append(r.CeilingCPU, measured())
		b.log("ceiling: %d scale writes in %v", managed, took.Round(time.Millisecond))
		return err
	}
	// A first loop that does not count: while an API server fills its watch cache, its
	// collector has less to do than ever after.
	if _, err := b.ceiling(ctx, expected+1); err != nil {
		return nil, err
	}
	if err := ceiling(expected); err != nil {
		return nil, err
	}

	n, err := b.plan(ctx, r.Ceiling())
	if err != nil {
		return nil, err
	}
	p, synced, err := b.startController(ctx, n.window)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	r.Synced = synced
	b.log("synced %v after its start", synced.Round(time.Millisecond))
	if err := b.watch.wait(ctx, managed, func(s *seen) bool { return s.status == corev1.ConditionFalse }); err != nil {
		return nil, fmt.Errorf("conditions of the day: %w", err)
	}

	for _, boundary := range []struct {
		name     string
		at       time.Time
		replicas int32
		status   corev1.ConditionStatus
		night    *Night
	}{{"sleep", n.sleep, 0, corev1.ConditionTrue, &r.Sleep}, {"wake", n.wake, expected, corev1.ConditionFalse, &r.Wake}} {
		b.log("waiting for the %s boundary at %s", boundary.name, boundary.at.Format("15:04:05"))
		if time.Now().After(boundary.at) {
			return nil, fmt.Errorf("this machine is too slow: the %s boundary has passed already", boundary.name)
		}
		b.profile(ctx, boundary.name, boundary.at)
		if b.Rollouts {
			if err := b.rollout(ctx, boundary.at); err != nil {
				return nil, err
			}
		}
		if err := sleepUntil(ctx, boundary.at); err != nil {
			return nil, err
		}
		measured := b.shares(p.PID)
		if err := b.watch.wait(ctx, managed, func(s *seen) bool { return s.replicas == boundary.replicas }); err != nil {
			return nil, fmt.Errorf("the counts of the %s boundary: %w", boundary.name, err)
		}
		boundary.night.CPU = measured()
		if err := b.watch.wait(ctx, managed, func(s *seen) bool { return s.replicas == boundary.replicas && s.status == boundary.status }); err != nil {
			return nil, fmt.Errorf("the conditions of the %s boundary: %w", boundary.name, err)
		}
		boundary.night.measure(b.watch.changes(boundary.replicas, boundary.at))
		b.log("%s: first %v, last %v after the boundary", boundary.name, boundary.night.First.Round(time.Millisecond), boundary.night.Last.Round(time.Millisecond))
	}
	if r.Events, err = b.countEvents(ctx, 2*managed); err != nil {
		return nil, err
	}
	quiet := time.Now()
	b.log("idle for %v", b.Idle)
	if err := sleepUntil(ctx, quiet.Add(b.Idle)); err != nil {
		return nil, err
	}
	idleEnd := time.Now()
	r.PeakRSS, r.SteadyRSS, r.CPU = usage(p.PID)
	r.WrongAfter = managed - b.watch.count(func(s *seen) bool { return s.replicas == expected })
	r.Conditions = b.watch.count(func(s *seen) bool { return s.status == corev1.ConditionFalse })
	if err := p.Stop(); err != nil {
		return nil, err
	}
	if err := ceiling(expected + 1); err != nil {
		return nil, err
	}
	return r, b.audit(r, n.sleep, n.wake, quiet, idleEnd)
}

// night is when all Deployments sleep and wake, and the controller's --window.
type night struct {
	sleep, wake time.Time
	window      string
}

// plan finds a night that begins when the controller has started and settled, and is long
// enough for all that its start sets off to be over before its end.
func (b *bench) plan(ctx context.Context, ceiling time.Duration) (n night, err error) {
	window := func(from, to time.Time) string { return from.Format("15:04") + "-" + to.Format("15:04") }
	if !b.Soon {
		length := (20*time.Second + time.Duration(b.Managed())*12*time.Millisecond + time.Minute - 1).Truncate(time.Minute)
		settle := 20*time.Second + time.Duration(b.Managed())*5*time.Millisecond
		n.sleep = time.Now().UTC().Add(settle + time.Minute).Truncate(time.Minute)
		n.wake = n.sleep.Add(length)
		n.window = window(n.sleep, n.wake)
		return n, nil
	}
	// The annotations cost one more loop. What follows takes the controller little more
	// than a loop each time.
	length := 10*time.Second + 4*ceiling
	n.wake = time.Now().UTC().Add(10*time.Second + 3*ceiling + length + time.Minute).Truncate(time.Minute)
	n.sleep = n.wake.Add(-length).Truncate(time.Second)
	n.window = "21:00-07:00" // of nobody
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		"schedule-night.svc/window":      window(n.sleep.Add(-time.Hour), n.wake),
		"schedule-night.svc/awake-until": n.sleep.Format(time.RFC3339),
	}}})
	if err != nil {
		return n, fmt.Errorf("writing a patch: %w", err)
	}
	return n, b.forEach(b.Managed(), func(i int) error {
		ns, name := place(i)
		if _, err := b.plane.Client.AppsV1().Deployments(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("setting the night: %w", err)
		}
		return nil
	})
}

// forEach calls f for each of the first n Deployments, from as many goroutines as there are
// workers.
func (b *bench) forEach(n int, f func(i int) error) error {
	work := make(chan int)
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range b.Workers {
		group.Go(func() {
			for i := range work {
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
	if len(errs) > 0 {
		return fmt.Errorf("%d of %d failed, the first: %w", len(errs), n, errs[0])
	}
	return nil
}

func place(i int) (namespace, name string) {
	return fmt.Sprintf("team-%02d", i%namespaces), fmt.Sprintf("web-%05d", i)
}

// makeDeployments makes Deployments of a realistic size: two containers, a dozen
// environment variables each. The first of them are annotated, which in each namespace
// is the same share; these have a window of their own unless it is empty.
func (b *bench) makeDeployments(ctx context.Context, window string) error {
	for i := range namespaces {
		ns, _ := place(i)
		if _, err := b.plane.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making a namespace: %w", err)
		}
	}
	var env []corev1.EnvVar
	for i := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("APPLICATION_SETTING_%d", i), Value: strings.Repeat("value ", 6)})
	}
	managed := b.Managed()
	return b.forEach(b.N, func(i int) error {
		ns, name := place(i)
		labels := map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": ns}
		container := corev1.Container{Image: "registry.example.com/team/" + name + ":v1.2.3", Env: env}
		app, sidecar := container, container
		app.Name, sidecar.Name = "app", "sidecar"
		annotations := map[string]string{"example.com/description": strings.Repeat("what this is for. ", 10)}
		if i < managed {
			annotations[optIn], annotations["schedule-night.svc/expected"] = "true", strconv.Itoa(expected)
			if window != "" {
				annotations["schedule-night.svc/window"] = window
			}
		}
		_, err := b.plane.Client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](expected + 2), // the first loop changes it
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{app, sidecar}}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making a Deployment: %w", err)
		}
		return nil
	})
}

// ceiling is how long a bare loop takes for one scale write to each managed Deployment,
// with as many writers as the controller has, the same kind of request, audit and watcher.
func (b *bench) ceiling(ctx context.Context, replicas int32) (time.Duration, error) {
	begun := time.Now()
	err := b.forEach(b.Managed(), func(i int) error {
		ns, name := place(i)
		s := b.watch.get(ns + "/" + name)
		_, err := b.client.AppsV1().Deployments(ns).UpdateScale(ctx, name, &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: s.uid, ResourceVersion: s.version},
			Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		}, metav1.UpdateOptions{FieldManager: "ceiling"})
		if b.Rollouts && err != nil { // the controller manager writes too
			return nil
		}
		return err
	})
	return time.Since(begun), err
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// profile has the API server profile itself from an instant on, for about as long as a
// boundary takes.
func (b *bench) profile(ctx context.Context, name string, from time.Time) {
	if b.Profiles == "" {
		return
	}
	go func() {
		if sleepUntil(ctx, from) != nil {
			return
		}
		path, seconds := filepath.Join(b.Profiles, name+".pprof"), max(3, b.N/700)
		raw, err := b.client.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(seconds)).Do(ctx).Raw()
		if err == nil {
			err = os.MkdirAll(b.Profiles, 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			b.log("no profile of the API server: %v", err)
			return
		}
		b.log("%s: %d s of the API server", path, seconds)
	}()
}

// rollout changes the Pod template of every tenth Deployment around the boundary.
func (b *bench) rollout(ctx context.Context, at time.Time) error {
	if err := sleepUntil(ctx, at.Add(-time.Second)); err != nil {
		return err
	}
	for i := 0; i < b.N; i += 10 {
		ns, name := place(i)
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"rolled-out":%q}}}}}`, at)
		if _, err := b.plane.Client.AppsV1().Deployments(ns).Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("rolling out: %w", err)
		}
	}
	return nil
}

// countEvents waits for the events of the boundaries, and counts them.
func (b *bench) countEvents(ctx context.Context, want int) (int, error) {
	count := 0
	for deadline := time.Now().Add(settleLimit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(time.Second) {
		last := count
		count = 0
		for _, reason := range []string{"ScaledDown", "ScaledUp"} {
			list, err := b.plane.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
			if err != nil {
				return 0, fmt.Errorf("counting events: %w", err)
			}
			count += len(list.Items)
		}
		if count >= want || last == count && count > 0 && time.Until(deadline) < settleLimit-time.Minute {
			break
		}
	}
	b.log("%d of %d events arrived", count, want)
	return count, nil
}

// seen is what the observer last saw of a Deployment.
type seen struct {
	uid      types.UID
	version  string
	replicas int32
	status   corev1.ConditionStatus
	changed  map[int32]time.Time // when it last came to a count
}

// observer watches all Deployments, as anybody may, and remembers those that are annotated.
type observer struct {
	mu    sync.Mutex
	byKey map[string]*seen
	news  chan struct{}
}

func observe(ctx context.Context, client kubernetes.Interface) (*observer, error) {
	o := &observer{byKey: map[string]*seen{}, news: make(chan struct{}, 1)}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(obj any) (any, error) {
		if d, ok := obj.(*appsv1.Deployment); ok { // keep this process out of the way
			d.Spec.Template, d.ManagedFields = corev1.PodTemplateSpec{}, nil
		}
		return obj, nil
	}))
	_, err := factory.Apps().V1().Deployments().TypedInformer().AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*appsv1.Deployment]{
		AddFunc:    o.see,
		UpdateFunc: func(_, d *appsv1.Deployment) { o.see(d) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	return o, nil
}

func (o *observer) see(d *appsv1.Deployment) {
	if d.Annotations[optIn] == "" {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	key := d.Namespace + "/" + d.Name
	s := o.byKey[key]
	if s == nil {
		s = &seen{changed: map[int32]time.Time{}}
		o.byKey[key] = s
	}
	if s.replicas != *d.Spec.Replicas {
		s.changed[*d.Spec.Replicas] = now
	}
	s.uid, s.version, s.replicas, s.status = d.UID, d.ResourceVersion, *d.Spec.Replicas, ""
	for _, c := range d.Status.Conditions {
		if c.Type == condition {
			s.status = c.Status
		}
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *observer) get(key string) seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.byKey[key]; s != nil {
		return *s
	}
	return seen{}
}

func (o *observer) count(ok func(*seen) bool) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.byKey {
		if ok(s) {
			n++
		}
	}
	return n
}

// wait returns when all of n are as wanted.
func (o *observer) wait(ctx context.Context, n int, ok func(*seen) bool) error {
	limit := time.After(settleLimit)
	for {
		if o.count(ok) == n {
			return nil
		}
		select {
		case <-time.After(250 * time.Millisecond): // counting takes long enough not to do it for each piece of news
			<-o.news
		case <-limit:
			return fmt.Errorf("%d of %d after %v", o.count(ok), n, settleLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changes are the delays with which Deployments came to a count after an instant.
func (o *observer) changes(replicas int32, at time.Time) []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []time.Duration
	for _, s := range o.byKey {
		list = append(list, s.changed[replicas].Sub(at))
	}
	return list
}

func (n *Night) measure(delays []time.Duration) {
	slices.Sort(delays)
	last := len(delays) - 1
	n.First, n.P50, n.P99, n.Last = delays[0], delays[last/2], delays[last*99/100], delays[last]
}

// startController starts the controller and waits until it is ready.
func (b *bench) startController(ctx context.Context, window string, flags ...string) (p *program.Process, synced time.Duration, err error) {
	kubeconfig, err := b.plane.ServiceAccountKubeconfig(ctx, "schedule-night", "schedule-night")
	if err != nil {
		return nil, 0, err
	}
	b.log("starting the controller, window %s", window)
	p, err = program.Start(b.Program, filepath.Join(b.plane.Dir, "schedule-night.log"), append(flags, "--kubeconfig", kubeconfig, "--window", window,
		"--kube-api-qps", strconv.Itoa(b.QPS), "--kube-api-burst", strconv.Itoa(max(2*b.QPS, 1)), "--workers", strconv.Itoa(b.Workers))...)
	if err != nil {
		return nil, 0, err
	}
	if err := p.Ready(ctx); err != nil {
		p.Kill()
		return nil, 0, err
	}
	return p, time.Since(p.Begun), nil
}

// usage is what a running process has taken: its largest and present resident
// memory in bytes, and its CPU time.
func usage(pid int) (peak, steady int64, cpu time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, 0 // not on Linux
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmHWM:":
			peak = n << 10
		case "VmRSS:":
			steady = n << 10
		}
	}
	return peak, steady, cpuTime(pid)
}

// cpuTime is what a running process has taken of the processors.
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // not on Linux
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11]) // utime and stime, in ticks of 10 ms
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// shares measures what the processes take from now until the returned function is called.
// The controller's is 0 if it does not run.
func (b *bench) shares(controller int) func() shares {
	taken := func() (list [len(processes)]time.Duration) {
		for i, pid := range []int{b.plane.PID(cluster.APIServer), b.plane.PID(cluster.Etcd), controller, os.Getpid()} {
			list[i] = cpuTime(pid)
		}
		return list
	}
	begun, before := time.Now(), taken()
	return func() (s shares) {
		processors := time.Since(begun).Seconds() * float64(goruntime.NumCPU())
		for i, after := range taken() {
			s[i] = (after - before[i]).Seconds() / processors
		}
		return s
	}
}

// audit counts the controller's requests, from the API server's own log.
func (b *bench) audit(r *Result, sleep, wake, quiet, idleEnd time.Time) error {
	requests, err := b.plane.Audited(accountUser)
	if err != nil {
		return err
	}
	r.Sleep.Requests, r.Wake.Requests, r.IdleRequests = map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range requests {
		what := e.Verb + " " + e.What()
		var night *Night
		switch {
		case e.Received.After(quiet) && e.Received.Before(idleEnd):
			r.IdleRequests[what]++
			continue
		case e.Received.Before(sleep) || e.Received.After(quiet):
			continue
		case e.Received.Before(wake):
			night = &r.Sleep
		default:
			night = &r.Wake
		}
		night.Requests[what]++
		switch {
		case e.Code.Code == http.StatusConflict:
			night.Conflicts++
		case what == "update deployments/scale" && e.Accepted():
			night.Scales++
		}
	}
	return nil
}

// Table is the result as Markdown.
func (r *Result) Table() string {
	var b strings.Builder
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + " ms" }
	mb := func(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/(1<<20)) }
	row := func(name, sleep, wake string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", name, sleep, wake) }
	each := func(name string, f func(*Night) string) { row(name, f(&r.Sleep), f(&r.Wake)) }
	beside := "etcd and kube-apiserver alone"
	if r.Rollouts {
		beside = "the controller manager running, a rollout of every tenth Deployment at each boundary"
	}
	managed := r.Managed()
	if managed < r.N {
		beside += fmt.Sprintf("; %d are not annotated, all rows are about the other %d", r.N-managed, managed)
	}
	fmt.Fprintf(&b, "N=%d QPS=%d WORKERS=%d, %s\n\n", r.N, r.QPS, r.Workers, beside)
	row("", "to sleep", "to wake")
	row("---", "---", "---")
	row(fmt.Sprintf("ceiling: bare loop of %d scale writes, before and after", managed), ms(r.Ceilings[0]), ms(r.Ceilings[len(r.Ceilings)-1]))
	row("processors in that loop", r.CeilingCPU[0].String(), r.CeilingCPU[len(r.CeilingCPU)-1].String())
	each("first change after the boundary", func(n *Night) string { return ms(n.First) })
	each("p50", func(n *Night) string { return ms(n.P50) })
	each("p99", func(n *Night) string { return ms(n.P99) })
	each("last", func(n *Night) string { return ms(n.Last) })
	each("last / mean ceiling", func(n *Night) string { return fmt.Sprintf("%.2f", n.Last.Seconds()/r.Ceiling().Seconds()) })
	each("accepted scale writes", func(n *Night) string { return strconv.Itoa(n.Scales) })
	each("conflicts", func(n *Night) string { return strconv.Itoa(n.Conflicts) })
	each("processors until the last change", func(n *Night) string { return n.CPU.String() })
	each("requests", func(n *Night) string { return counts(n.Requests) })
	fmt.Fprintf(&b, "\n| | |\n| --- | --- |\n")
	both := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, value) }
	both(fmt.Sprintf("requests in %v of nothing to do", r.Idle), counts(r.IdleRequests))
	both("events that arrived", fmt.Sprintf("%d of %d", r.Events, 2*managed))
	both("wrong counts at the end", strconv.Itoa(r.WrongAfter))
	both("start to synced", ms(r.Synced))
	both("peak RSS, steady RSS", mb(r.PeakRSS)+", "+mb(r.SteadyRSS))
	both("CPU", fmt.Sprintf("%.1f s", r.CPU.Seconds()))
	return b.String()
}

func counts(m map[string]int) string {
	var list []string
	for what, n := range m {
		list = append(list, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(list)
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
