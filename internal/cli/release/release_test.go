package release

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/outlook/outlooktest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// TestRelease: what the command does with Deployments in each state.
func TestRelease(t *testing.T) {
	named := func(name string, d *appsv1.Deployment) *appsv1.Deployment {
		d.Name, d.Labels = name, map[string]string{"app": name}
		return d
	}
	elsewhere := named("elsewhere", workloadtest.AsleepSince(workloadtest.Deployment(0)))
	elsewhere.Namespace = "kube-system"
	client := fake.NewClientset(
		named("recorded", workloadtest.AsleepSince(workloadtest.Deployment(0))),
		named("edited", workloadtest.AsleepSince(workloadtest.Deployment(0, "expected=5"))),
		named("unrecorded", workloadtest.Deployment(0)),                        // the schedule says so
		named("by-hand", workloadtest.AsleepSince(workloadtest.Deployment(2))), // somebody gave it another count
		named("awake", workloadtest.Deployment(3, "window=01:00-02:00")),
		named("broken", workloadtest.Deployment(3, "window=x")),
		named("unmanaged", workloadtest.Without(workloadtest.Deployment(0), "on")),
		elsewhere,
	)
	client.PrependReactor("patch", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if patch := action.(k8stesting.PatchAction); patch.GetName() == "by-hand" && action.GetSubresource() == "" {
			return true, nil, apierrors.NewForbidden(appsv1.Resource("deployments"), "by-hand", errors.New("no\x1b[2J"))
		}
		return false, nil, nil
	})
	run := func(dryRun bool, selector string) (string, error) {
		t.Helper()
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		r := &releaser{client: client, clock: clocktesting.NewFakePassiveClock(nighttest.Time(t, "2026-11-28T23:00:00Z")), decide: outlooktest.Decide, defaults: nighttest.Defaults(t), dryRun: dryRun, out: &out}
		err = r.run(t.Context(), cli.Scope{Excluded: []string{"kube-system"}, Selector: parsed})
		return out.String(), err
	}

	if out, err := run(true, "app=recorded"); err != nil || out != "deployment default/recorded: 0 -> 3\n1 would be released, 0 failed\n" {
		t.Errorf("dry run: %q, error %v", out, err)
	}
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			t.Errorf("a dry run wrote: %v", action)
		}
	}
	out, err := run(false, "")
	if err == nil || !strings.Contains(out, "by-hand: releasing it: waking it: ") || !strings.Contains(out, `no\u001b[2J`) || !strings.HasSuffix(out, "3 released, 1 failed\n") {
		t.Errorf("said %q, error %v", out, err)
	}
	for name, want := range map[string]int32{"recorded": 3, "edited": 5, "unrecorded": 3, "awake": 3, "broken": 3, "unmanaged": 0} {
		d, err := client.AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if *d.Spec.Replicas != want {
			t.Errorf("%s: at %d, want %d", name, *d.Spec.Replicas, want)
		}
		_, on := d.Annotations[night.AnnotationOn]
		if released := name == "recorded" || name == "edited" || name == "unrecorded"; on == released && name != "unmanaged" {
			t.Errorf("%s: opted in: %v", name, on)
		}
		if c := workloadtest.Of(d).Record; c != nil && (c.Status != corev1.ConditionFalse || c.Reason != workload.ReasonReleased) {
			t.Errorf("%s: condition %s/%s", name, c.Status, c.Reason)
		}
	}
	if d, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "elsewhere", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("an excluded namespace: %+v, error %v", d, err)
	}
}

// TestReleaseWithoutStatus: who may not write deployments/status wakes and opts out all the
// same, and is told what could not be done.
func TestReleaseWithoutStatus(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{apierrors.NewForbidden(appsv1.Resource("deployments/status"), "web", errors.New("no\nright")), `deployment default/web: 0 -> 3
deployment default/web: it is awake and opted out; only its record could not be updated: writing the condition: deployments/status.apps "web" is forbidden: no\u000aright
1 released, 0 failed
1 of them still have a record of the night: a controller that runs updates it, or release, run with the right to patch deployments/status
`},
		{apierrors.NewNotFound(appsv1.Resource("deployments"), "web"), "deployment default/web: 0 -> 3\n1 released, 0 failed\n"}, // deleted since
	} {
		client := fake.NewClientset(workloadtest.AsleepSince(workloadtest.Deployment(0)))
		client.PrependReactor("patch", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
			return action.GetSubresource() == "status", nil, tc.err
		})
		var out bytes.Buffer
		r := &releaser{client: client, clock: clocktesting.NewFakePassiveClock(nighttest.Time(t, "2026-11-28T23:00:00Z")), decide: outlooktest.Decide, defaults: nighttest.Defaults(t), out: &out}
		err := r.run(t.Context(), cli.Scope{Selector: labels.Everything()})
		if err != nil || out.String() != tc.want {
			t.Errorf("error %v, got\n%s\nwant\n%s", err, &out, tc.want)
		}
		d, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, on := d.Annotations[night.AnnotationOn]; on || *d.Spec.Replicas != 3 {
			t.Errorf("opted in: %v, at %d", on, *d.Spec.Replicas)
		}
	}
}
