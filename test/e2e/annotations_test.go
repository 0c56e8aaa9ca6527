package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// soon bounds how long an edit may take to show: it is to take effect within a
// second; the rest is for kubectl and a busy machine.
const soon = 3 * time.Second

// TestAnnotations sets and edits each annotation with kubectl, and sees the effect.
func TestAnnotations(t *testing.T) {
	start(t, "--resync=1s").waitLeading() // so long after a start, no count is lowered in the day
	ns := makeNamespace(t)

	// The hour around now, and one that is not.
	now := time.Now().UTC()
	inside := "window=" + windowIn(now.Add(-30*time.Minute), time.Hour)
	outside := "window=" + windowIn(now.Add(3*time.Hour), time.Hour)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	today := now.Add(-30 * time.Minute).Format(time.DateOnly) // the night's date
	tokyo := time.FixedZone("", 9*60*60)                      // no clock changes there

	type step struct {
		annotations string // to set, space separated; name- removes
		replicas    int32  // to be seen
		reason      string // of the condition
	}
	for name, steps := range map[string][]step{
		"window": {
			{"on=true expected=3 " + outside, 3, "DayWindow"},
			{inside, 0, "NightWindow"},
			{outside, 3, "DayWindow"},
		},
		"expected": {
			{"on=true expected=3 " + outside, 3, "DayWindow"},
			{"expected=5", 5, "DayWindow"},
			{"expected=0", 0, "DayWindow"},
			{"expected=2", 2, "DayWindow"},
		},
		"night-replicas": {
			{"on=true expected=3 night-replicas=1 " + inside, 1, "NightWindow"},
			{"night-replicas=0", 0, "NightWindow"},
			{"night-replicas=4", 4, "NightWindow"},
			{"night-replicas-", 0, "NightWindow"},
		},
		"timezone": {
			{"on=true expected=3 timezone=Asia/Tokyo window=" + windowIn(now.In(tokyo).Add(-30*time.Minute), time.Hour), 0, "NightWindow"},
			{"timezone=Etc/GMT+5", 3, "DayWindow"},
			{"timezone=Asia/Tokyo", 0, "NightWindow"},
		},
		"except": {
			{"on=true expected=3 " + inside, 0, "NightWindow"},
			{"except=" + today, 3, "DayWindow"},
			{"except-", 0, "NightWindow"},
		},
		"awake-until": {
			{"on=true expected=3 " + inside, 0, "NightWindow"},
			{"awake-until=" + at(time.Hour), 3, "AwakeUntil"},
			{"awake-until=" + at(-time.Hour), 0, "NightWindow"},
		},
		"asleep-until": {
			{"on=true expected=3 " + outside, 3, "DayWindow"},
			{"asleep-until=" + at(time.Hour), 0, "AsleepUntil"},
			{"asleep-until-", 3, "DayWindow"},
		},
		"wake-delay": {
			{"on=true expected=3 window=" + windowIn(now.Add(-time.Hour), 30*time.Minute), 3, "DayWindow"},
			{"wake-delay=2h expected=4", 4, "DayWindow"}, // it has not slept that night
			{inside, 0, "NightWindow"},
			{"window=" + windowIn(now.Add(-time.Hour), 30*time.Minute), 0, "NightWindow"},
			{"wake-delay=1s", 4, "DayWindow"},
		},
		"on": {
			{"on=true expected=3 " + inside, 0, "NightWindow"},
			{"on=false", 3, "Released"},
			{"on=true", 0, "NightWindow"},
			{"on-", 3, "Released"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			makeDeployment(t, ns, name, 3)
			for _, s := range steps {
				annotate(t, ns, name, strings.Fields(s.annotations)...)
				edited := time.Now()
				waitDeployment(t, ns, name, s.annotations, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == s.replicas })
				if took := time.Since(edited); took > soon {
					t.Errorf("%s took effect after %v", s.annotations, took)
				}
				status := map[string]corev1.ConditionStatus{"NightWindow": corev1.ConditionTrue, "AsleepUntil": corev1.ConditionTrue}[s.reason]
				if status == "" {
					status = corev1.ConditionFalse
				}
				waitCondition(t, ns, name, status, s.reason)
			}
		})
	}
}

// TestDaytime: enforce puts a manual change back, wake-only leaves it; at night both
// hold the night count.
func TestDaytime(t *testing.T) {
	start(t, "--resync=1s").waitLeading()
	ns := makeNamespace(t)
	hour := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	for _, daytime := range []string{"enforce", "wake-only"} {
		makeDeployment(t, ns, daytime, 3, "on=true", "expected=3", "daytime="+daytime, "awake-until="+hour, "window=00:00-24:00")
		waitCondition(t, ns, daytime, corev1.ConditionFalse, "AwakeUntil")
		kubectl(t, "scale", "-n", ns, "deployment", daytime, "--replicas=6")
	}
	waitReplicas(t, ns, "enforce", 3)
	waitReplicas(t, ns, "wake-only", 6)
	for _, daytime := range []string{"enforce", "wake-only"} {
		annotate(t, ns, daytime, "awake-until-")
		waitReplicas(t, ns, daytime, 0)
		waitCondition(t, ns, daytime, corev1.ConditionTrue, "NightWindow")
		scaled := time.Now()
		kubectl(t, "scale", "-n", ns, "deployment", daytime, "--replicas=6")
		waitDeployment(t, ns, daytime, "held at 0", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 0 && d.Generation >= 5 })
		if took := time.Since(scaled); took > soon {
			t.Errorf("%s: held after %v", daytime, took)
		}
		annotate(t, ns, daytime, "awake-until="+hour)
		waitReplicas(t, ns, daytime, 3)
	}
}

// testOverrideExpires: at awake-until a Deployment goes to sleep that instant.
func testOverrideExpires(t *testing.T, tenant *tenant) {
	tenant.start(t).waitLeading()
	ns := tenant.ns
	until := time.Now().Truncate(time.Second).Add(4 * time.Second)
	makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+until.Format(time.RFC3339))
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
	waitReplicas(t, ns, "web", 0)
	// A write that met one of the Deployment controller's was refused, and sent again.
	writes := audit(t, func(r *request) bool {
		return r.Ref != nil && r.Ref.Namespace == ns && r.What() == "deployments/scale" && r.Code.Code != http.StatusConflict
	})
	if len(writes) != 1 {
		t.Fatalf("%d scale writes, want 1", len(writes))
	}
	if late := writes[0].Received.Sub(until); late < 0 || late > time.Second {
		t.Errorf("went to sleep %v after awake-until", late)
	}
}

// testInvalid: an invalid annotation leaves the replicas alone, is told once, and
// does not trouble the neighbours.
func testInvalid(t *testing.T, ns string) {
	for name, invalid := range map[string]string{
		"on": "on=yes", "expected": "expected=three", "window": "window=Mon-Fry 21:00-07:00", "timezone": "timezone=CEST",
		"night-replicas": "night-replicas=-1", "except": "except=2026-02-30", "awake-until": "awake-until=2h",
		"asleep-until": "asleep-until=tomorrow", "daytime": "daytime=always", "wake-delay": "wake-delay=-5m",
	} {
		makeDeployment(t, ns, name, 2, "on=true", "expected=3", "window=00:00-24:00", invalid)
	}
	makeDeployment(t, ns, "good", 2, "on=true", "expected=3", "window=00:00-24:00")
	waitReplicas(t, ns, "good", 0)

	list, err := plane.Client.AppsV1().Deployments(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		if d.Name == "good" {
			continue
		}
		c := waitCondition(t, ns, d.Name, corev1.ConditionUnknown, "InvalidSchedule")
		if !strings.HasPrefix(c.Message, prefix+d.Name+" \"") {
			t.Errorf("%s: message %q", d.Name, c.Message)
		}
		if e := waitEvent(t, ns, d.Name, "InvalidSchedule"); e.Type != corev1.EventTypeWarning || !strings.Contains(e.Message, c.Message) {
			t.Errorf("%s: event %s %q", d.Name, e.Type, e.Message)
		}
	}
	// Nothing more comes of them: a good one's edit, seen through, is later than any retry.
	annotate(t, ns, "good", "night-replicas=1")
	waitReplicas(t, ns, "good", 1)
	for _, d := range list.Items {
		live, err := plane.Client.AppsV1().Deployments(ns).Get(t.Context(), d.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Name == "good" {
			continue
		}
		if *live.Spec.Replicas != 2 {
			t.Errorf("%s: scaled to %d", d.Name, *live.Spec.Replicas)
		}
		if events, occurrences := countEvents(t, ns, d.Name, "InvalidSchedule"); events != 1 || occurrences != 1 {
			t.Errorf("%s: %d events, %d occurrences", d.Name, events, occurrences)
		}
	}
	annotate(t, ns, "window", "window=00:00-24:00") // and repaired
	waitReplicas(t, ns, "window", 0)
}
