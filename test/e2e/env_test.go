// Package e2e tests the built program on a real control plane, with the rights that
// deploy/ gives it.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"schedule-night/test/cluster"
)

const (
	prefix    = "schedule-night.svc/"
	condition = prefix + "Asleep"
	namespace = "schedule-night" // of the controller
	account   = "schedule-night"

	// eventually is more than any wait should need; what is to happen within a
	// given time is measured.
	eventually = 90 * time.Second
)

var (
	plane      *cluster.Cluster
	program    string // path of the built program
	kubeconfig string // of the controller's ServiceAccount
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	program = os.Getenv("SCHEDULE_NIGHT")
	if program == "" {
		fmt.Fprintln(os.Stderr, "SCHEDULE_NIGHT must name the program to test; make test-e2e builds it and does so")
		return 1
	}
	dir, err := os.MkdirTemp("", "schedule-night-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	plane, err = cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stderr, Nodes: 3, Flags: map[string][]string{
		// Many tests at once: none is to wait for the Pods of another.
		cluster.Scheduler: {"--kube-api-qps=1000", "--kube-api-burst=1000"},
		// And an autoscaler's day in seconds.
		cluster.ControllerManager: {
			"--kube-api-qps=1000", "--kube-api-burst=1000",
			"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=3s",
			"--horizontal-pod-autoscaler-cpu-initialization-period=1s", "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
		},
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer plane.Stop()
	for range 2 { // as a user would, and again: nothing may be wrong the second time
		if out, err := runKubectl(ctx, "apply", "-f", "../../deploy/"); err != nil {
			fmt.Fprintln(os.Stderr, out, err)
			return 1
		}
	}
	if kubeconfig, err = plane.ServiceAccountKubeconfig(ctx, namespace, account); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func runKubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, plane.Path(cluster.Kubectl), append([]string{"--kubeconfig", plane.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl runs kubectl as the administrator.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runKubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectlApply applies a manifest as the administrator.
func kubectlApply(t *testing.T, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", file)
}

// kubectlAs runs kubectl as the controller's ServiceAccount; its failing is an answer.
func kubectlAs(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plane.Path(cluster.Kubectl), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// runProgram runs a command of the program as the administrator, and returns what it
// prints.
func runProgram(t *testing.T, want int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig", plane.Kubeconfig)...)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("%s: exited %d, want %d: %v\n%s", strings.Join(args, " "), code, want, err, out)
	}
	return string(out)
}

// controller is a running process of the program.
type controller struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	done   chan struct{} // closed when it has ended
	mu     sync.Mutex
	output bytes.Buffer
}

// quickElection makes failovers short enough for a test.
var quickElection = []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"}

// start starts the program under its own ServiceAccount and waits until it is
// ready. It is stopped at the end of the test, and must then have exited 0, unless
// the test has ended it otherwise.
func start(t *testing.T, args ...string) *controller {
	t.Helper()
	return startWith(t, kubeconfig, args...)
}

func startWith(t *testing.T, kubeconfig string, args ...string) *controller {
	t.Helper()
	c := launch(t, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	c.waitReady()
	return c
}

// tenant is a namespace with an installation of its own: its controllers have their own
// Lease, see no other namespace, and have no right in one. So its test runs side by side
// with those of other tenants, when the tests of the whole cluster's controller are over.
type tenant struct{ ns, kubeconfig string }

// makeTenant makes a namespace, and installs deploy/ for it alone.
func makeTenant(t *testing.T) *tenant {
	t.Helper()
	ns := makeNamespace(t)
	overlay, err := filepath.EvalSymlinks(t.TempDir()) // kustomize knows folders by their real names
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs(repoFile("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	if deploy, err = filepath.EvalSymlinks(deploy); err != nil {
		t.Fatal(err)
	}
	if deploy, err = filepath.Rel(overlay, deploy); err != nil { // nor does it take absolute ones
		t.Fatal(err)
	}
	kustomization := fmt.Sprintf("namespace: %[1]s\nresources: [%[2]s]\ncomponents: [%[2]s/components/one-namespace, %[2]s/components/without-admin]\n", ns, deploy)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-k", overlay)
	path, err := plane.ServiceAccountKubeconfig(t.Context(), ns, account)
	if err != nil {
		t.Fatal(err)
	}
	return &tenant{ns, path}
}

// start is like the function of that name, in the tenant's namespace.
func (n *tenant) start(t *testing.T, args ...string) *controller {
	t.Helper()
	return startWith(t, n.kubeconfig, append([]string{"--namespace", n.ns}, args...)...)
}

// launch starts the program with the arguments and no more.
func launch(t *testing.T, args ...string) *controller {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c := &controller{t: t, url: "http://" + address, done: make(chan struct{})}
	c.cmd = exec.Command(program, append([]string{"--listen-address", address}, args...)...)
	c.cmd.Env = append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=true")
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(c.done); _ = c.cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case <-c.done:
		default:
			if code := c.terminate(); code != 0 {
				t.Errorf("the controller exited %d", code)
			}
		}
		if t.Failed() {
			t.Logf("the controller's log:\n%s", c.log())
		}
	})
	return c
}

// Write collects the program's output.
func (c *controller) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.Write(p)
}

func (c *controller) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

func (c *controller) signal(s syscall.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// terminate tells it to stop, and returns its exit code.
func (c *controller) terminate() int {
	c.signal(syscall.SIGTERM)
	return c.wait(15 * time.Second)
}

// wait waits for it to end, and returns its exit code.
func (c *controller) wait(limit time.Duration) int {
	select {
	case <-c.done:
	case <-time.After(limit):
		c.t.Errorf("the controller did not end within %v", limit)
		c.signal(syscall.SIGKILL)
		<-c.done
	}
	return c.cmd.ProcessState.ExitCode()
}

// get is the status and body of a path on the program's HTTP server.
func (c *controller) get(path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func (c *controller) waitReady() {
	c.t.Helper()
	c.eventually("it is ready", func() bool { code, _ := c.get("/readyz"); return code == http.StatusOK })
}

// waitLeading waits until this process leads.
func (c *controller) waitLeading() {
	c.t.Helper()
	c.eventually("it leads", func() bool { return strings.Contains(c.log(), "Starting workers") })
}

// eventually polls for what no watch tells, as long as the process lives.
func (c *controller) eventually(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.After(eventually)
	for !ok() {
		select {
		case <-c.done:
			c.t.Fatalf("the controller ended before %s:\n%s", what, c.log())
		case <-deadline:
			c.t.Fatalf("not within %v: %s", eventually, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// makeNamespace makes a namespace for the test, and deletes it in the end. Its
// Deployments are gone when the test is: the namespace itself takes its time, in which
// the controller of the next test would still count them.
func makeNamespace(t *testing.T) string {
	t.Helper()
	ns, err := plane.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := plane.Client.AppsV1().Deployments(ns.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := plane.Client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return ns.Name
}

// newDeployment is a Deployment of one container.
func newDeployment(ns, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
			},
		},
	}
}

// makeDeployment makes a Deployment with annotations given as name=value, without
// the prefix.
func makeDeployment(t *testing.T, ns, name string, replicas int32, annotations ...string) *appsv1.Deployment {
	t.Helper()
	d := newDeployment(ns, name, replicas)
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		d.Annotations[prefix+key] = value
	}
	d, err := plane.Client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// waitDeployment watches a Deployment until it is as wanted, and returns it.
func waitDeployment(t *testing.T, ns, name, what string, ok func(*appsv1.Deployment) bool) *appsv1.Deployment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	deployments := plane.Client.AppsV1().Deployments(ns)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return deployments.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return deployments.Watch(ctx, o)
		},
	}
	var last *appsv1.Deployment
	_, err := watchtools.UntilWithSync(ctx, lw, &appsv1.Deployment{}, nil, func(e watch.Event) (bool, error) {
		if e.Type == watch.Deleted {
			return false, nil
		}
		last = e.Object.(*appsv1.Deployment)
		return ok(last), nil
	})
	if err != nil {
		t.Fatalf("%s/%s: not %s: %v; last %+v", ns, name, what, err, last)
	}
	return last
}

// waitReplicas waits until spec.replicas and the Pods that are ready are n.
func waitReplicas(t *testing.T, ns, name string, n int32) *appsv1.Deployment {
	t.Helper()
	return waitDeployment(t, ns, name, fmt.Sprintf("at %d replicas", n), func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == n && d.Status.ReadyReplicas == n && d.Status.Replicas == n
	})
}

// waitCondition waits until our condition has the status and reason.
func waitCondition(t *testing.T, ns, name string, status corev1.ConditionStatus, reason string) *appsv1.DeploymentCondition {
	t.Helper()
	d := waitDeployment(t, ns, name, fmt.Sprintf("%s/%s", status, reason), func(d *appsv1.Deployment) bool {
		c := asleep(d)
		return c != nil && c.Status == status && c.Reason == reason
	})
	return asleep(d)
}

func asleep(d *appsv1.Deployment) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == condition {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// waitEvent waits for an event about the Deployment with the reason.
func waitEvent(t *testing.T, ns, name, reason string) *corev1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	selector := fields.Set{"involvedObject.name": name, "reason": reason}.String()
	events := plane.Client.CoreV1().Events(ns)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return events.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return events.Watch(ctx, o)
		},
	}
	got, err := watchtools.UntilWithSync(ctx, lw, &corev1.Event{}, nil, func(e watch.Event) (bool, error) { return e.Type != watch.Deleted, nil })
	if err != nil {
		t.Fatalf("no event %s about %s/%s: %v", reason, ns, name, err)
	}
	return got.Object.(*corev1.Event)
}

// countEvents counts the events about a Deployment with the reason, and how often
// they say they occurred.
func countEvents(t *testing.T, ns, name, reason string) (events, occurrences int) {
	t.Helper()
	list, err := plane.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.name": name, "reason": reason}.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		occurrences += int(max(e.Count, 1))
	}
	return len(list.Items), occurrences
}

// annotate sets annotations with kubectl, as name=value without the prefix; a name
// with a trailing minus is removed.
func annotate(t *testing.T, ns, name string, annotations ...string) {
	t.Helper()
	args := []string{"annotate", "--overwrite", "-n", ns, "deployment", name}
	for _, a := range annotations {
		args = append(args, prefix+a)
	}
	kubectl(t, args...)
}

type request = cluster.Request

// audit reads all requests of controllers' ServiceAccounts, the tenants' too, that ok picks.
func audit(t *testing.T, ok func(*request) bool) []*request {
	t.Helper()
	list, err := plane.Audited("")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(r *request) bool {
		user := r.User.Username
		return !strings.HasPrefix(user, "system:serviceaccount:") || !strings.HasSuffix(user, ":"+account) || !ok(r)
	})
}

// repoFile is a file of the repository.
func repoFile(name string) string { return filepath.Join("..", "..", name) }
