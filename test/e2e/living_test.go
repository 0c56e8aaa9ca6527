package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// These tests have one controller, that of the whole cluster, and run side by side.
func TestLiving(t *testing.T) {
	start(t).waitLeading()
	for _, tc := range []struct {
		name string
		test func(*testing.T, string)
	}{
		{"Invalid", testInvalid},
		{"Plan", testPlan},
		{"Autoscaler", testAutoscaler},
		{"AutoscalerMinimum", testAutoscalerMinimum},
		{"WipedRecord", testWipedRecord},
		{"OptOutAllGone", testOptOutAllGone},
		{"LastSecondChange", testLastSecondChange},
		{"Refused", testRefused},
		{"Terminating", testTerminating},
		{"Recreated", testRecreated},
		{"Paused", testPaused},
		{"UpToNightCount", testUpToNightCount},
		{"Release", testRelease},
		{"RolledBack", testRolledBack},
		{"Misspelt", testMisspelt},
		{"ContestedByScale", testContestedByScale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := makeNamespace(t)
			t.Parallel()
			tc.test(t, ns)
		})
	}
}

// TestTenants: each of these tests has controllers of its own, in a namespace of their
// own, and they run side by side. They take minutes, and mostly wait.
func TestTenants(t *testing.T) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, *tenant)
	}{
		{"GitOps", testGitOps},
		{"MainJob", testMainJob},
		{"Stagger", testStagger},
		{"Idle", testIdle},
		{"OverrideExpires", testOverrideExpires},
		{"LostLease", testLostLease},
		{"DeletedLease", testDeletedLease},
		{"Restart", testRestart},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, makeTenant(t))
		})
	}
}

func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// scaleWrites are the controller's writes to the scale of a Deployment: the counts.
func scaleWrites(t *testing.T, ns, name string) (counts []string, requests []*request) {
	t.Helper()
	for _, r := range audit(t, func(r *request) bool {
		return r.What() == "deployments/scale" && r.Ref.Namespace == ns && r.Ref.Name == name && r.Code.Code == http.StatusOK
	}) {
		var scale struct{ Spec struct{ Replicas int } }
		if err := json.Unmarshal(r.Body, &scale); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, strconv.Itoa(scale.Spec.Replicas))
		requests = append(requests, r)
	}
	return counts, requests
}

// podMetrics is a metrics API that says that all Pods use as much CPU as it is told. It
// is registered with the API server once, for all tests.
var podMetrics = struct {
	once  sync.Once
	mu    sync.Mutex
	usage map[string]string // by namespace
}{usage: map[string]string{}}

func setUsage(ns, cpu string) {
	podMetrics.mu.Lock()
	defer podMetrics.mu.Unlock()
	podMetrics.usage[ns] = cpu
}

func serveMetrics(t *testing.T) {
	t.Helper()
	podMetrics.once.Do(func() {
		mux := http.NewServeMux()
		reply := func(w http.ResponseWriter, body any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body)
		}
		const group = "metrics.k8s.io/v1beta1"
		mux.HandleFunc("GET /apis/"+group, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group,
				APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: []string{"get", "list"}}},
			})
		})
		mux.HandleFunc("GET /apis/"+group+"/namespaces/{ns}/pods", func(w http.ResponseWriter, r *http.Request) {
			ns := r.PathValue("ns")
			pods, err := plane.Client.CoreV1().Pods(ns).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			podMetrics.mu.Lock()
			cpu := podMetrics.usage[ns]
			podMetrics.mu.Unlock()
			items := []any{}
			for _, p := range pods.Items {
				items = append(items, map[string]any{
					"metadata":  map[string]any{"name": p.Name, "namespace": ns},
					"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "15s",
					"containers": []any{map[string]any{"name": "app", "usage": map[string]any{"cpu": cpu, "memory": "1Mi"}}},
				})
			}
			reply(w, map[string]any{"kind": "PodMetricsList", "apiVersion": group, "metadata": map[string]any{}, "items": items})
		})
		server := httptest.NewTLSServer(mux) // until the process ends
		address, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		manifest := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics, namespace: kube-system, port: %[1]s}
`, address.Port())
		kubectlApply(t, manifest)
		kubectl(t, "wait", "apiservice/v1beta1.metrics.k8s.io", "--for=condition=Available", "--timeout=60s")
	})
}

// makeAutoscaled makes a Deployment with CPU requests, and an HPA on half of them.
func makeAutoscaled(t *testing.T, ns string, replicas int32, minReplicas, maxReplicas int, annotations ...string) {
	t.Helper()
	serveMetrics(t)
	d := makeDeployment(t, ns, "web", replicas, annotations...)
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": d.Spec.Template}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "autoscale", "-n", ns, "deployment", "web", "--cpu=50%", fmt.Sprintf("--min=%d", minReplicas), fmt.Sprintf("--max=%d", maxReplicas))
}

// testAutoscaler: the real HPA controller, through a day, a night and a morning.
func testAutoscaler(t *testing.T, ns string) {
	setUsage(ns, "100m") // twice the target: to the maximum
	makeAutoscaled(t, ns, 3, 2, 8, "on=true", "expected=3", "window=00:00-24:00", "awake-until="+inAnHour())
	waitReplicas(t, ns, "web", 8) // by the HPA, and not put back to 3
	if counts, _ := scaleWrites(t, ns, "web"); len(counts) != 0 {
		t.Errorf("scaled to %v in the day of the HPA", counts)
	}

	annotate(t, ns, "web", "awake-until-")
	waitReplicas(t, ns, "web", 0)
	kubectl(t, "wait", "-n", ns, "hpa/web", "--for=condition=ScalingActive=false", "--timeout=60s") // it stands aside
	d := waitReplicas(t, ns, "web", 0)
	night := d.Generation

	setUsage(ns, "10m") // little to do in the morning: to the minimum, in time
	annotate(t, ns, "web", "awake-until="+inAnHour())
	waitDeployment(t, ns, "web", "woken", func(d *appsv1.Deployment) bool { return d.Generation > night && *d.Spec.Replicas == 3 })
	waitReplicas(t, ns, "web", 2) // which the HPA then does, unhindered
	setUsage(ns, "100m")
	waitReplicas(t, ns, "web", 8)
	if counts, _ := scaleWrites(t, ns, "web"); !slices.Equal(counts, []string{"0", "3"}) {
		t.Errorf("the controller scaled to %v, want 0 and 3", counts)
	}
}

// testAutoscalerMinimum: a night count between 0 and the HPA's minimum.
func testAutoscalerMinimum(t *testing.T, ns string) {
	setUsage(ns, "10m") // little to do: to the minimum
	makeAutoscaled(t, ns, 4, 2, 8, "on=true", "expected=4", "night-replicas=1", "daytime=enforce", "window=00:00-24:00", "awake-until="+inAnHour())
	e := waitEvent(t, ns, "web", "AutoscalerConflict")
	if e.Type != corev1.EventTypeWarning || !strings.Contains(e.Message, "HorizontalPodAutoscaler web") {
		t.Errorf("event %s %q", e.Type, e.Message)
	}
	waitReplicas(t, ns, "web", 2)
	annotate(t, ns, "web", "awake-until-")
	c := waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
	if !strings.HasPrefix(c.Message, "replicas=2 expected=4 ") {
		t.Errorf("message %q", c.Message)
	}
	setUsage(ns, "100m") // much to do in the night, which is the HPA's above its minimum
	waitReplicas(t, ns, "web", 8)
	annotate(t, ns, "web", "awake-until="+inAnHour())
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
	waitReplicas(t, ns, "web", 8) // a live count above expected is not cut on waking
	if counts, _ := scaleWrites(t, ns, "web"); len(counts) != 0 {
		t.Errorf("the controller scaled to %v", counts)
	}
}

// testGitOps: somebody applies replicas every two seconds for minutes.
func testGitOps(t *testing.T, tenant *tenant) {
	tenant.start(t, "--resync=1s").waitLeading()
	ns := tenant.ns
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "window=00:00-24:00")
	waitReplicas(t, ns, "web", 0)
	const length = 110 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	apply := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}`)
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	applied := 0
	for ctx.Err() == nil {
		if _, err := plane.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.ApplyYAMLPatchType, apply, metav1.PatchOptions{FieldManager: "gitops", Force: ptr.To(true)}); err != nil {
			t.Fatal(err)
		}
		applied++
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	counts, _ := scaleWrites(t, ns, "web")
	// One to sleep, two at full speed, then one after 1 min, and not yet the one after 2 more.
	if len(counts) != 4 {
		t.Errorf("%d writes against %d applies in %v, want 4", len(counts), applied, length)
	}
	e := waitEvent(t, ns, "web", "Contested")
	if !strings.HasPrefix(e.Message, `"gitops" keeps setting replicas to 3 where 0 is due`) {
		t.Errorf("event %q", e.Message)
	}
	if events, _ := countEvents(t, ns, "web", "Contested"); events != 1 {
		t.Errorf("%d events Contested", events)
	}
	// It has ended. The morning is not delayed by what was.
	annotate(t, ns, "web", "awake-until="+inAnHour(), "expected=2")
	waitReplicas(t, ns, "web", 2)
	annotate(t, ns, "web", "awake-until-")
	waitReplicas(t, ns, "web", 0)
}

// testContestedByScale: who writes the scale subresource leaves no name, so the event says
// who it can be.
func testContestedByScale(t *testing.T, ns string) {
	const keda = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: %s, name: keda-hpa-web, labels: {scaledobject.keda.sh/name: web}},
		spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: keda}, minReplicas: 2, maxReplicas: 5,
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`
	kubectlApply(t, fmt.Sprintf(keda, ns))
	for name, want := range map[string]string{
		"web":  "somebody who left no name, as an autoscaler (an HPA, KEDA) or kubectl scale, keeps setting replicas to 2 where 0 is due",
		"keda": "somebody, likely KEDA, keeps setting replicas to 2 where 0 is due",
	} {
		makeDeployment(t, ns, name, 3, "on=true", "expected=3", "window=00:00-24:00")
		for range 3 {
			waitDeployment(t, ns, name, "asleep", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 })
			kubectl(t, "scale", "-n", ns, "deployment", name, "--replicas=2")
		}
		if e := waitEvent(t, ns, name, "Contested"); !strings.HasPrefix(e.Message, want) {
			t.Errorf("event %q, want %s", e.Message, want)
		}
	}
}

// testRolledBack: kubectl rollout undo brings back the annotations that the old revision had
// when it was the newest, and the event of the cut says so. Our write is sooner than the revision, so that cannot tell.
func testRolledBack(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=2020-01-01 00:00-24:00")
	waitReplicas(t, ns, "web", 2)
	kubectl(t, "patch", "-n", ns, "deployment/web", "-p", `{"metadata":{"annotations":{"schedule-night.svc/expected":"10"}},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/app:2"}]}}}}`)
	waitReplicas(t, ns, "web", 10)
	waitDeployment(t, ns, "web", "recorded", func(d *appsv1.Deployment) bool {
		c := asleep(d)
		return c != nil && strings.Contains(c.Message, "expected=10") && d.Annotations["deployment.kubernetes.io/revision"] == "2"
	})
	kubectl(t, "rollout", "undo", "-n", ns, "deployment/web")
	waitReplicas(t, ns, "web", 2)
	e := waitEvent(t, ns, "web", "ScaledDown")
	if want := "; expected was 10 and is 2 since the Pod template changed with it, as by kubectl rollout undo, which brings back old annotations too"; !strings.HasPrefix(e.Message, "Scaled from 10 to 2: awake ") || !strings.HasSuffix(e.Message, want) {
		t.Errorf("event %q", e.Message)
	}
}

// testMisspelt: what has no effect is told, and all else has.
func testMisspelt(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "window=00:00-24:00", "timeZone=Europe/Berlin")
	waitReplicas(t, ns, "web", 0)
	e := waitEvent(t, ns, "web", "UnknownAnnotation")
	if want := "schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant"; e.Message != want || e.Type != corev1.EventTypeWarning {
		t.Errorf("event %s %q, want %q", e.Type, e.Message, want)
	}
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
	if _, times := countEvents(t, ns, "web", "UnknownAnnotation"); times != 1 {
		t.Errorf("told %d times", times)
	}
}

// testWipedRecord: our condition is removed while the Deployment sleeps.
func testWipedRecord(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "window=00:00-24:00")
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
	if _, err := plane.Client.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"$patch":"delete","type":"`+condition+`"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow") // written anew
	annotate(t, ns, "web", "awake-until="+inAnHour())
	waitReplicas(t, ns, "web", 3)
}

// testOptOutAllGone: as when a GitOps tool applies a manifest without our annotations.
func testOptOutAllGone(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 4, "on=true", "expected=4", "window=00:00-24:00")
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
	annotate(t, ns, "web", "on-", "expected-", "window-")
	waitReplicas(t, ns, "web", 4)
	waitCondition(t, ns, "web", corev1.ConditionFalse, "Released")
	waitEvent(t, ns, "web", "Released")
	kubectl(t, "scale", "-n", ns, "deployment", "web", "--replicas=1") // left alone from now on
	waitReplicas(t, ns, "web", 1)
	if counts, _ := scaleWrites(t, ns, "web"); !slices.Equal(counts, []string{"0", "4"}) {
		t.Errorf("the controller scaled to %v", counts)
	}
}

// testLastSecondChange: a count set by hand just before waking does not keep from it.
func testLastSecondChange(t *testing.T, ns string) {
	wake := time.Now().Truncate(time.Second).Add(8 * time.Second)
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "asleep-until="+wake.Format(time.RFC3339), "window=2020-01-01 00:00-24:00")
	waitReplicas(t, ns, "web", 0)
	<-time.After(time.Until(wake.Add(-500 * time.Millisecond)))
	kubectl(t, "scale", "-n", ns, "deployment", "web", "--replicas=2")
	waitReplicas(t, ns, "web", 3)
	waitCondition(t, ns, "web", corev1.ConditionFalse, "DayWindow")
}

// testRefused: admission refuses our write. It is told, holds up nobody, and comes
// right when it is over.
func testRefused(t *testing.T, ns string) {
	policy := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse-%[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments/scale]}]
  matchConditions: [{name: ours, expression: 'request.namespace == "%[1]s" && request.name == "web"'}]
  validations: [{expression: "false", message: quota of patience exceeded}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse-%[1]s}
spec: {policyName: refuse-%[1]s, validationActions: [Deny]}
`, ns)
	kubectlApply(t, policy)
	remove := func() {
		_, _ = runKubectl(context.Background(), "delete", "validatingadmissionpolicybinding", "refuse-"+ns, "--ignore-not-found")
	}
	t.Cleanup(func() {
		remove()
		_, _ = runKubectl(context.Background(), "delete", "validatingadmissionpolicy", "refuse-"+ns)
	})
	// The policy is in force when it refuses us.
	makeDeployment(t, ns, "web", 2)
	for deadline := time.Now().Add(eventually); ; {
		if _, err := runKubectl(t.Context(), "scale", "-n", ns, "deployment", "web", "--replicas=2"); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the policy does not come into force")
		}
	}
	annotate(t, ns, "web", "on=true", "expected=2", "window=00:00-24:00")
	e := waitEvent(t, ns, "web", "ReconcileFailed")
	if !strings.Contains(e.Message, "quota of patience exceeded") {
		t.Errorf("event %q", e.Message)
	}
	makeDeployment(t, ns, "neighbour", 2, "on=true", "expected=2", "window=00:00-24:00")
	waitReplicas(t, ns, "neighbour", 0)
	remove()
	waitReplicas(t, ns, "web", 0)
}

// testTerminating: a namespace that is going away, with a Deployment that is slow to go.
func testTerminating(t *testing.T, ns string) {
	d := makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+inAnHour())
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
	finalizers := func(list string) {
		if _, err := plane.Client.AppsV1().Deployments(ns).Patch(context.Background(), d.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	finalizers(`["example.com/slow"]`)
	defer finalizers("null")
	kubectl(t, "delete", "deployment", "-n", ns, "web", "--wait=false")
	waitDeployment(t, ns, "web", "being deleted", func(d *appsv1.Deployment) bool { return d.DeletionTimestamp != nil })
	annotate(t, ns, "web", "awake-until-") // would be asleep now
	other := makeNamespace(t)
	makeDeployment(t, other, "neighbour", 1, "on=true", "expected=1", "window=00:00-24:00")
	waitReplicas(t, other, "neighbour", 0)
	if counts, _ := scaleWrites(t, ns, "web"); len(counts) != 0 {
		t.Errorf("scaled to %v while being deleted", counts)
	}
}

// testRecreated: the same name, another object, again and again: each is decided on
// by its own annotations.
func testRecreated(t *testing.T, ns string) {
	for range 5 {
		makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00")
		kubectl(t, "delete", "deployment", "-n", ns, "web", "--cascade=background")
		makeDeployment(t, ns, "web", 2) // not managed
		kubectl(t, "delete", "deployment", "-n", ns, "web", "--cascade=background")
	}
	makeDeployment(t, ns, "web", 2, "on=true", "expected=3", "window=00:00-24:00", "awake-until="+inAnHour())
	waitReplicas(t, ns, "web", 3)
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
}

// testPaused: a rollout that is paused sleeps and wakes like any other.
func testPaused(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+inAnHour())
	waitReplicas(t, ns, "web", 2)
	kubectl(t, "rollout", "pause", "-n", ns, "deployment/web")
	annotate(t, ns, "web", "awake-until-")
	waitReplicas(t, ns, "web", 0)
	annotate(t, ns, "web", "awake-until="+inAnHour())
	waitReplicas(t, ns, "web", 2)
	d := waitReplicas(t, ns, "web", 2)
	if !d.Spec.Paused {
		t.Error("it is not paused any more")
	}
}

// testUpToNightCount: at 0 replicas in the night, with a night count of 1.
func testUpToNightCount(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 0, "on=true", "expected=2", "night-replicas=1", "window=00:00-24:00")
	waitReplicas(t, ns, "web", 1)
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
}

// testRelease: the command wakes what sleeps and opts it out, with or without a
// controller at work.
func testRelease(t *testing.T, ns string) {
	makeDeployment(t, ns, "sleeper", 3, "on=true", "expected=3", "window=00:00-24:00")
	makeDeployment(t, ns, "awake", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+inAnHour())
	waitCondition(t, ns, "sleeper", corev1.ConditionTrue, "NightWindow")
	waitCondition(t, ns, "awake", corev1.ConditionFalse, "AwakeUntil")

	if out := runProgram(t, 0, "release", "-n", ns, "--dry-run"); out != "deployment "+ns+"/sleeper: 0 -> 3\n1 would be released, 0 failed\n" {
		t.Errorf("dry run: %q", out)
	}
	waitReplicas(t, ns, "sleeper", 0)
	if out := runProgram(t, 0, "release", "-n", ns); out != "deployment "+ns+"/sleeper: 0 -> 3\n1 released, 0 failed\n" {
		t.Errorf("said %q", out)
	}
	d := waitReplicas(t, ns, "sleeper", 3)
	if _, on := d.Annotations[prefix+"on"]; on {
		t.Error("still opted in")
	}
	waitCondition(t, ns, "sleeper", corev1.ConditionFalse, "Released")
	if d := waitReplicas(t, ns, "awake", 2); d.Annotations[prefix+"on"] != "true" {
		t.Error("one that is awake was opted out")
	}
}

// testIdle: between boundaries nothing is written, whatever the Deployment controller
// writes; and our condition survives that, and keeps no rollout from ending.
func testIdle(t *testing.T, tenant *tenant) {
	tenant.start(t).waitLeading()
	ns := tenant.ns
	for _, awake := range []string{"true", "false"} {
		window := map[string]string{"true": "2020-01-01 00:00-24:00", "false": "00:00-24:00"}[awake]
		makeDeployment(t, ns, "awake-"+awake, 3, "on=true", "expected=3", "night-replicas=1", "window="+window)
	}
	awake := waitCondition(t, ns, "awake-true", corev1.ConditionFalse, "DayWindow")
	asleep := waitCondition(t, ns, "awake-false", corev1.ConditionTrue, "NightWindow")
	waitEvent(t, ns, "awake-false", "ScaledDown")
	quiet := time.Now()
	for end := quiet.Add(65 * time.Second); time.Now().Before(end); { // more than two resyncs
		for _, name := range []string{"awake-true", "awake-false"} {
			kubectl(t, "rollout", "restart", "-n", ns, "deployment/"+name)
			kubectl(t, "rollout", "status", "-n", ns, "deployment/"+name, "--timeout=60s")
		}
		<-time.After(1100 * time.Millisecond) // kubectl restarts nothing twice in a second
	}
	for _, r := range audit(t, func(r *request) bool {
		return r.Ref != nil && r.Ref.Namespace == ns && r.Writes() && r.What() != "leases" && r.Received.After(quiet)
	}) {
		t.Errorf("%s %s %s at %v", r.Verb, r.What(), r.Ref.Name, r.Received)
	}
	if c := waitCondition(t, ns, "awake-true", corev1.ConditionFalse, "DayWindow"); !c.LastTransitionTime.Equal(&awake.LastTransitionTime) || c.Message != awake.Message {
		t.Errorf("the condition became %+v", c)
	}
	if c := waitCondition(t, ns, "awake-false", corev1.ConditionTrue, "NightWindow"); !c.LastTransitionTime.Equal(&asleep.LastTransitionTime) {
		t.Errorf("the condition became %+v", c)
	}
}

// testPlan: the plan of a cluster, and of the same manifests without one. The night is long
// past, so that the controller never goes along; its count is what an autoscaler makes of it.
func testPlan(t *testing.T, ns string) {
	makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "night-replicas=1", "window=2020-12-01 21:00-24:00, 2020-12-02 00:00-07:00", "timezone=Europe/Berlin")
	kubectl(t, "autoscale", "deployment", "web", "-n", ns, "--min=2", "--max=9")
	makeDeployment(t, ns, "unmanaged", 1)
	from := []string{"--from=2020-12-01T12:00:00Z", "-o", "json"}
	want := []map[string]any{
		{"namespace": ns, "name": "unmanaged", "timezone": "", "state": "unmanaged", "replicas": 1.0, "expected": 0.0, "nightReplicas": 0.0, "error": "", "transitions": []any{}},
		{"namespace": ns, "name": "web", "timezone": "Europe/Berlin", "state": "awake", "replicas": 2.0, "expected": 2.0, "nightReplicas": 2.0, "error": "", "transitions": []any{
			map[string]any{"at": "2020-12-01T20:00:00Z", "to": "asleep", "replicas": 2.0},
			map[string]any{"at": "2020-12-02T06:00:00Z", "to": "awake", "replicas": 2.0},
		}},
	}
	check := func(what, out string) {
		var got []map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, error %v", what, out, err)
		}
	}
	check("the cluster", runProgram(t, 0, append([]string{"plan", "-n", ns}, from...)...))
	manifests := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(manifests, []byte(kubectl(t, "get", "deployments,horizontalpodautoscalers", "-n", ns, "-o", "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	check("its manifests", runProgram(t, 0, append([]string{"plan", "-f", manifests}, from...)...))

	makeDeployment(t, ns, "wrong", 1, "on=true", "expected=1", "window=9pm-7am")
	if out := runProgram(t, 1, "plan", "-n", ns); !strings.Contains(out, ns+"/wrong: "+prefix+`window "9pm-7am": "9pm" is not a start; use HH:MM, 00:00 to 23:59`) || !strings.Contains(out, "invalid") {
		t.Errorf("the plan with a wrong one:\n%s", out)
	}
	runProgram(t, 2, "plan", "--for=never")
}

// testStagger: 300 Deployments wake over 30 s, evenly.
func testStagger(t *testing.T, tenant *tenant) {
	const n, stagger = 300, 30 * time.Second
	tenant.start(t, "--wake-stagger="+stagger.String()).waitLeading()
	ns := tenant.ns
	end := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	if time.Until(end) < 30*time.Second {
		end = end.Add(time.Minute)
	}
	for i := range n {
		makeDeployment(t, ns, fmt.Sprintf("web-%d", i), 1, "on=true", "expected=1", "window="+windowIn(end.Add(-time.Hour), time.Hour))
	}
	<-time.After(time.Until(end.Add(stagger)))
	for i := range n {
		waitDeployment(t, ns, fmt.Sprintf("web-%d", i), "awake", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	}
	var late []time.Duration
	for _, r := range audit(t, func(r *request) bool {
		return r.What() == "deployments/scale" && r.Ref.Namespace == ns && r.Code.Code == http.StatusOK && strings.Contains(string(r.Body), `"replicas":1`)
	}) {
		late = append(late, r.Received.Sub(end))
	}
	slices.Sort(late)
	if len(late) != n || late[0] < 0 || late[n-1] > stagger+2*time.Second {
		t.Fatalf("%d woke, from %v to %v after the end of the window", len(late), late[0], late[len(late)-1])
	}
	for i, at := range late {
		if even := stagger * time.Duration(i) / n; (at - even).Abs() > 4*time.Second {
			t.Errorf("number %d woke at %v, %v in an even spread", i, at, even)
		}
	}
	t.Logf("%d woke from %v to %v after the end of the window; quarters at %v, %v, %v", n, late[0], late[n-1], late[n/4], late[n/2], late[3*n/4])
}

// TestWithoutAutoscalerRights: lacking the right to read HPAs is one line in the log.
func TestWithoutAutoscalerRights(t *testing.T) {
	role, err := plane.Client.RbacV1().ClusterRoles().Get(t.Context(), "schedule-night", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := runKubectl(context.Background(), "apply", "-f", "../../deploy/10-rbac.yaml"); err != nil {
			t.Error(out, err)
		}
	})
	for i, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, "autoscaling") {
			role.Rules = slices.Delete(role.Rules, i, i+1)
			break
		}
	}
	if _, err := plane.Client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(kubectlAs(t, "auth", "can-i", "list", "hpa", "-A"), "no") { // rights are cached for a moment
	}
	c := start(t)
	c.waitLeading()
	ns := makeNamespace(t)
	makeDeployment(t, ns, "web", 1, "on=true", "expected=1", "window=00:00-24:00")
	waitReplicas(t, ns, "web", 0)
	if lines := strings.Split(c.log(), "\n"); len(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "orizontalPodAutoscalers") })) != 1 {
		t.Error("not one line in the log about it")
	}
}
