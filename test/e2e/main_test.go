package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// windowIn is a window from start, of the given length.
func windowIn(start time.Time, length time.Duration) string {
	return start.Format("15:04") + "-" + start.Add(length).Format("15:04")
}

// testMainJob: a Deployment goes to sleep at the start of its window and wakes at its
// end, at the very second, with the condition and the events that tell of it. Other tests
// have boundaries at awake-until or asleep-until, which come sooner than a full minute.
func testMainJob(t *testing.T, tenant *tenant) {
	tenant.start(t).waitLeading()
	ns := tenant.ns
	begin := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	if time.Until(begin) < 5*time.Second {
		begin = begin.Add(time.Minute)
	}
	makeDeployment(t, ns, "web", 3, "on=true", "expected=3", "window="+windowIn(begin, time.Minute))
	makeDeployment(t, ns, "unmanaged", 2)
	makeDeployment(t, ns, "off", 2, "on=false", "expected=7", "window=00:00-24:00")
	waitReplicas(t, ns, "web", 3)
	waitCondition(t, ns, "web", corev1.ConditionFalse, "DayWindow")

	waitReplicas(t, ns, "web", 0)
	night := waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
	if want := "replicas=0 expected=3 until=" + begin.Add(time.Minute).Format(time.RFC3339); night.Message != want {
		t.Errorf("message %q, want %q", night.Message, want)
	}
	if e := waitEvent(t, ns, "web", "ScaledDown"); !strings.HasPrefix(e.Message, "Scaled from 3 to 0: asleep in window ") {
		t.Errorf("event %q", e.Message)
	}
	kubectl(t, "wait", "-n", ns, "deployment/web", "--for=condition="+condition, "--timeout=5s")
	waitReplicas(t, ns, "web", 3)
	waitCondition(t, ns, "web", corev1.ConditionFalse, "DayWindow")
	waitEvent(t, ns, "web", "ScaledUp")

	// A write that met one of the Deployment controller's was refused, and sent again.
	writes := audit(t, func(r *request) bool {
		return r.Ref != nil && r.Ref.Namespace == ns && r.What() == "deployments/scale" && r.Code.Code != http.StatusConflict
	})
	if len(writes) != 2 {
		t.Fatalf("%d scale writes, want 2", len(writes))
	}
	for i, at := range []time.Time{begin, begin.Add(time.Minute)} {
		if late := writes[i].Received.Sub(at); late < 0 || late > time.Second {
			t.Errorf("write %d came %v after its boundary", i, late)
		}
	}
	for _, r := range audit(t, func(r *request) bool {
		return r.Ref != nil && r.Ref.Namespace == ns && r.Writes() && r.What() != "events" && r.What() != "leases"
	}) {
		if r.Ref.Name != "web" {
			t.Errorf("%s %s of %s", r.Verb, r.What(), r.Ref.Name)
		}
	}
	if out := kubectl(t, "rollout", "status", "-n", ns, "deployment/web", "--timeout=10s"); !strings.Contains(out, "successfully rolled out") {
		t.Error(out)
	}
}

// testLostLease: a leader whose Lease is taken away exits 1 and writes no more.
func testLostLease(t *testing.T, tenant *tenant) {
	c := tenant.start(t, quickElection...)
	c.waitLeading()
	leases := plane.Client.CoordinationV1().Leases(tenant.ns)
	lease, err := leases.Get(t.Context(), "schedule-night", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for { // the leader renews at the same time
		lease.Spec.HolderIdentity = ptr.To("thief")
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if _, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err == nil {
			break
		}
		if lease, err = leases.Get(t.Context(), "schedule-night", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if code := c.wait(15 * time.Second); code != 1 {
		t.Errorf("exited %d, want 1", code)
	}
	if !strings.Contains(c.log(), "error: lost the Lease") {
		t.Error("it does not say why")
	}
	makeDeployment(t, tenant.ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00")
	if err := leases.Delete(t.Context(), "schedule-night", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant.start(t, quickElection...)
	waitReplicas(t, tenant.ns, "web", 0)
}

// testRestart: what was due while no controller ran is made up for by the next.
func testRestart(t *testing.T, tenant *tenant) {
	ns := tenant.ns
	c := tenant.start(t)
	makeDeployment(t, ns, "sleeper", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+time.Now().Add(time.Hour).Format(time.RFC3339))
	makeDeployment(t, ns, "waker", 2, "on=true", "expected=2", "asleep-until="+time.Now().Add(time.Hour).Format(time.RFC3339), "window=2020-01-01 00:00-24:00")
	waitCondition(t, ns, "sleeper", corev1.ConditionFalse, "AwakeUntil")
	waitCondition(t, ns, "waker", corev1.ConditionTrue, "AsleepUntil")
	if code := c.terminate(); code != 0 {
		t.Errorf("exited %d", code)
	}
	soon := time.Now().Truncate(time.Second).Add(2 * time.Second) // the boundary of both
	annotate(t, ns, "sleeper", "awake-until="+soon.Format(time.RFC3339))
	annotate(t, ns, "waker", "asleep-until="+soon.Format(time.RFC3339))
	<-time.After(time.Until(soon))
	tenant.start(t)
	waitReplicas(t, ns, "sleeper", 0)
	waitReplicas(t, ns, "waker", 2)
	waitCondition(t, ns, "sleeper", corev1.ConditionTrue, "NightWindow")
	waitCondition(t, ns, "waker", corev1.ConditionFalse, "DayWindow")
}

// TestPods: the cluster runs deploy/'s own Pods: they pass the restricted policy of
// their namespace, and spread over the nodes.
func TestPods(t *testing.T) {
	waitDeployment(t, namespace, "schedule-night", "ready", func(d *appsv1.Deployment) bool { return d.Status.ReadyReplicas == 2 })
	pods, err := plane.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for _, p := range pods.Items {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 2 {
		t.Errorf("the Pods are on %d nodes, want 2", len(nodes))
	}
	ns, err := plane.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if level := ns.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("the namespace enforces %q", level)
	}
	out, err := runKubectl(t.Context(), "run", "-n", namespace, "careless", "--image=example.com/app:1")
	if err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("a Pod that is not restricted: %v %s", err, out)
	}
}
