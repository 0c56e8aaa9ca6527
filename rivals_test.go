package main

import (
	"context"
	"fmt"
	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// putBack is somebody who sets replicas every few seconds as long as the test says.
func (w *world) putBack(every, length time.Duration) (scales int) {
	end := time.Now().Add(length)
	for time.Now().Before(end) {
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })
		time.Sleep(every)
	}
	synctest.Wait()
	for _, write := range w.taken() {
		if strings.HasPrefix(write, "scale") {
			scales++
		}
	}
	return scales
}

// TestContested: putting replicas back again and again costs at most 12 writes an
// hour, until it ends; then all is as before.
func TestContested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-20:00"))
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		if n := w.putBack(5*time.Second, time.Minute); n != 2 {
			t.Errorf("%d writes in the first minute, want 2 at full speed and then a pause", n)
		}
		if n := w.putBack(15*time.Second, 59*time.Minute); n < 5 || n > 9 {
			t.Errorf("%d writes in the rest of the hour, want 12 in all at the most", n)
		}
		if n := w.putBack(15*time.Second, time.Hour); n < 5 || n > 12 {
			t.Errorf("%d writes in the next hour", n)
		}
		var contested []string
		for _, e := range w.events.all() {
			if strings.Contains(e, reasonContested) {
				contested = append(contested, e)
			}
		}
		if want := "web Warning Contested: somebody who left no name, as an autoscaler (an HPA, KEDA) or kubectl scale, keeps setting replicas to 3 where 0 is due"; len(contested) != 1 || !strings.HasPrefix(contested[0], want) {
			t.Errorf("events %q", contested)
		}

		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }) // the rival gives in
		time.Sleep(20 * time.Minute)                                              // it has ended, and the count is right
		w.settle()
		if d := w.live("default", "web"); *d.Spec.Replicas != 0 {
			t.Errorf("%d replicas", *d.Spec.Replicas)
		}
		w.taken()
		for range 3 { // as at first
			w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })
			w.settle()
		}
		w.expect("scale web=0", "scale web=0", "scale web=0")
	})
}

// TestContender: the event says who it can be, and what makes peace with that.
func TestContender(t *testing.T) {
	hpa, keda := &workload.Autoscaler{Name: "hpa"}, &workload.Autoscaler{Name: "keda-hpa-web", ScaledObject: "web"}
	for _, tc := range []struct {
		manager     string
		hpa         *workload.Autoscaler
		who, advice string
		lowers      bool
	}{
		{"argocd", nil, `"argocd"`, "RespectIgnoreDifferences", false},
		{"argocd", keda, `"argocd"`, "RespectIgnoreDifferences", false},
		{"", nil, "somebody who left no name, as an autoscaler (an HPA, KEDA) or kubectl scale,", "leave the count alone", false},
		{"", &workload.Autoscaler{}, "somebody who left no name, as an autoscaler (an HPA, KEDA) or kubectl scale,", "leave the count alone", false}, // they cannot be read
		{"", hpa, "somebody who left no name, likely HorizontalPodAutoscaler hpa or kubectl scale,", "leave the count alone", false},
		{"", keda, "somebody, likely KEDA,", "ScaledObject web targets it", false},
		{"", keda, "somebody, likely KEDA,", "Remove schedule-night.svc/night-replicas", true},
		{"keda", keda, `"keda"`, "ScaledObject web targets it", false},
	} {
		who, advice := contender(tc.manager, tc.hpa, tc.lowers)
		if who != tc.who || !strings.Contains(advice, tc.advice) {
			t.Errorf("%q, %+v: got %s; %s", tc.manager, tc.hpa, who, advice)
		}
	}
}

// TestKEDAContest: who keeps up a minimum at 0 replicas, too, is named by the event.
func TestKEDAContest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-20:00"))
		w.watchAutoscalers()
		hpa := workloadtest.HPAFor("web", 1)
		hpa.Labels = map[string]string{"scaledobject.keda.sh/name": "jobs"}
		if err := w.tracker.Add(hpa); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.settle()
		w.putBack(30*time.Second, 5*time.Minute)
		want := `web Warning Contested: somebody, likely KEDA, keeps setting replicas to 3 where 0 is due (asleep in window "00:00-20:00" UTC, next change 2000-01-01T20:00:00Z); ` +
			`will write less often until that ends. ScaledObject jobs targets it: KEDA raises what sleeps while a trigger is active and, with a minReplicaCount of 1 or more, always. ` +
			`Set its idleReplicaCount to 0 if the triggers are quiet at night, pause it (autoscaling.keda.sh/paused), or set schedule-night.svc/on to false`
		if got := w.events.all(); !slices.Contains(got, want) {
			t.Errorf("events %q, want %s", got, want)
		}
	})
}

// TestMisspelt: what has no effect is told to the owner, once until it changes.
func TestMisspelt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := workloadtest.Placed("default", "off", workloadtest.Without(workloadtest.Deployment(3, "timeZone=UTC"), "on"))
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=12:00-13:00", "timeZone=Europe/Berlin", "start=7"), off)
		w.run()
		want := []string{
			"web Warning UnknownAnnotation: schedule-night.svc/start has no effect; there are on, expected, window, timezone, night-replicas, except, awake-until, asleep-until, daytime, wake-delay. " +
				"schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant",
		}
		expect := func() {
			t.Helper()
			var told []string
			for _, e := range w.events.all() {
				if strings.Contains(e, reasonUnknownAnnotation) {
					told = append(told, e)
				}
			}
			if !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		}
		w.until("2000-01-03T11:00:00Z")
		w.expect("status web=False/DayWindow", "status web=True/NightWindow", "scale web=0", "scale web=3", "status web=False/DayWindow",
			"status web=True/NightWindow", "scale web=0", "scale web=3", "status web=False/DayWindow") // and all else works
		expect()
		w.edit(func(d *appsv1.Deployment) { delete(d.Annotations, night.Prefix+"start") })
		w.settle()
		want = append(want, "web Warning UnknownAnnotation: schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant")
		expect()
		for _, value := range []string{"", "UTC"} { // mended, and made again
			w.edit(func(d *appsv1.Deployment) {
				if delete(d.Annotations, night.Prefix+"timeZone"); value != "" {
					d.Annotations[night.Prefix+"timeZone"] = value
				}
			})
			w.settle()
		}
		want = append(want, want[1])
		expect()
		w.edit(func(d *appsv1.Deployment) {
			d.Annotations[night.AnnotationOn], d.Annotations[night.Prefix+"start"] = "false", ""
		})
		w.settle()
		expect()
	})
}

// TestRolledBack: a cut in the day that a rollback brings names what expected was, and why.
func TestRolledBack(t *testing.T) {
	set := func(expected, image string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Annotations[night.AnnotationExpected] = expected
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: image}}
		}
	}
	const undo = " since the Pod template changed with it, as by kubectl rollout undo, which brings back old annotations too"
	for name, tc := range map[string]struct {
		edits []func(*appsv1.Deployment)
		want  string
	}{
		"a rollback":                  {[]func(*appsv1.Deployment){set("2", "app:1")}, "; expected was 10 and is 2" + undo},
		"an edit":                     {[]func(*appsv1.Deployment){set("2", "app:2")}, "; expected was 10 and is 2"},
		"a rollout, then an edit":     {[]func(*appsv1.Deployment){set("10", "app:3"), set("2", "app:3")}, "; expected was 10 and is 2"},
		"a rollout that raises, then": {[]func(*appsv1.Deployment){set("12", "app:3"), set("2", "app:3")}, "; expected was 12 and is 2"},
		"scaled by hand":              {[]func(*appsv1.Deployment){func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](12) }}, ""},
		"raised, below what is there": {[]func(*appsv1.Deployment){func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](20); set("11", "app:3")(d) }}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := workloadtest.Deployment(10, "window=12:00-13:00")
			set("10", "app:2")(d)
			w := newWorld(t, clock.RealClock{}, d)
			w.run()
			w.settle()
			for _, edit := range tc.edits {
				w.edit(edit)
				w.settle()
			}
			got := w.events.all()
			if last := got[len(got)-1]; !strings.HasSuffix(last, `: awake outside window "12:00-13:00" UTC, next change 2000-01-01T12:00:00Z`+tc.want) {
				t.Errorf("%s: %q", name, got)
			}
			rolled := 0
			w.rolled.Range(func(any, any) bool { rolled++; return true })
			if rolled > 0 {
				t.Errorf("%s: it is remembered after it was recorded", name)
			}
		})
	}
	// The last change of expected counts, also before anything was done about the first.
	w := newWorld(t, clock.RealClock{})
	defer w.Queue.ShutDown()
	var versions []*workload.Workload
	for _, change := range []func(*appsv1.Deployment){set("10", "app:2"), set("12", "app:3"), set("2", "app:3")} {
		d := workloadtest.Deployment(10)
		change(d)
		versions = append(versions, workloadtest.Of(d))
	}
	for i, want := range []bool{true, false} {
		w.updated(versions[i], versions[i+1])
		if _, got := w.rolled.Load("default/web"); got != want {
			t.Errorf("after edit %d, taken for a rollback: %v", i+1, got)
		}
	}
}

// takeAway is somebody who takes our record away every so often as long as the test says.
func (w *world) takeAway(every, length time.Duration) (writes []string) {
	end := time.Now().Add(length)
	for time.Now().Before(end) {
		w.edit(func(d *appsv1.Deployment) { d.Status.Conditions = nil })
		time.Sleep(every)
	}
	synctest.Wait()
	return w.taken()
}

// TestRecordContested: taking our record away, or writing another over it, again and again
// costs at most 12 writes an hour and is told once, asleep or awake. It does not delay what
// people wait for, and when it ends, all is as before.
func TestRecordContested(t *testing.T) {
	for name, window := range map[string]string{"asleep": "00:00-20:00", "awake": "21:00-22:00"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window="+window))
				w.run()
				w.settle()
				w.taken()
				if n := len(w.takeAway(5*time.Second, time.Minute)); n != 2 {
					t.Errorf("%d writes in the first minute, want 2 at full speed and then a pause", n)
				}
				if n := len(w.takeAway(15*time.Second, 59*time.Minute)); n < 5 || n > 9 {
					t.Errorf("%d writes in the rest of the hour, want 12 in all at the most", n)
				}
				w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationNightReplicas] = "2" })
				w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationExpected] = "2" })
				w.settle()
				if n := *w.live("default", "web").Spec.Replicas; n != 2 {
					t.Errorf("%d replicas at once, want 2", n)
				}
				var contested []string
				for _, e := range w.events.all() {
					if strings.Contains(e, reasonContested) {
						contested = append(contested, e)
					}
				}
				if len(contested) != 1 || !strings.HasPrefix(contested[0], "web Warning Contested: somebody keeps changing the condition schedule-night.svc/Asleep") {
					t.Errorf("events %q", contested)
				}

				time.Sleep(20 * time.Minute) // it has ended
				w.settle()
				ours := w.live("default", "web").Status.Conditions
				if len(ours) != 1 {
					t.Fatal("no record")
				}
				w.takeAway(5*time.Second, 5*time.Minute) // and begins anew
				w.edit(func(d *appsv1.Deployment) { d.Status.Conditions = ours })
				time.Sleep(20 * time.Minute) // and the rival gives in
				w.taken()
				for range 3 { // as at first
					w.edit(func(d *appsv1.Deployment) { d.Status.Conditions[0].Message = "somebody's" })
					w.settle()
				}
				if got := w.taken(); len(got) != 3 {
					t.Errorf("writes %q, want the record at once", got)
				}
			})
		})
	}
}

// TestRecordContestedBoundary: whoever takes the record away does not keep a workload from
// waking when it should.
func TestRecordContestedBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-01:00", "daytime=wake-only", "expected=5"))
		w.run()
		w.settle()
		w.takeAway(15*time.Second, 59*time.Minute)
		w.edit(func(d *appsv1.Deployment) { d.Status.Conditions = nil })
		w.until("2000-01-01T01:00:00Z")
		w.settle()
		if got := w.taken(); len(got) == 0 || got[0] != "scale web=5" {
			t.Errorf("writes %q, want it to wake first of all", got)
		}
	})
}

// TestRecordVanishes: of a workload that sleeps, the record that somebody takes away is
// written again, even where no schedule tells any more that it sleeps.
func TestRecordVanishes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		edit     func(*appsv1.Deployment)
		want     []string
		replicas int32 // at noon
	}{
		{"alone", func(*appsv1.Deployment) {}, []string{"status web=True/NightWindow"}, 3},
		{"with the opt-in", func(d *appsv1.Deployment) { d.Annotations = nil },
			[]string{"scale web=3"}, 3},
		{"and the schedule is broken", func(d *appsv1.Deployment) { d.Annotations[night.AnnotationWindow] = "9pm" },
			[]string{"status web=Unknown/InvalidSchedule"}, 3},
		{"and it is awake", func(d *appsv1.Deployment) { d.Spec.Replicas, d.Annotations = ptr.To[int32](2), nil }, nil, 2},
		{"since it was made anew", func(d *appsv1.Deployment) { d.UID, d.Annotations = "uid-2", nil }, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
				w.run()
				w.settle()
				w.expect("status web=True/NightWindow", "scale web=0")
				since := w.record("default", "web").Since
				w.until("2000-01-01T01:00:00Z")
				w.edit(func(d *appsv1.Deployment) {
					d.Status.Conditions = nil
					tc.edit(d)
				})
				w.settle()
				w.expect(tc.want...)
				if r := w.record("default", "web"); tc.name == "alone" && !r.Since.Equal(since) {
					t.Errorf("asleep since %v, want %v", r.Since, since)
				}
				for _, reason := range w.events.reasons()[1:] {
					if reason != workload.ReasonInvalidSchedule && reason != reasonScaledUp {
						t.Errorf("event %s", reason)
					}
				}
				w.until("2000-01-01T12:00:00Z")
				if n := *w.live("default", "web").Spec.Replicas; n != tc.replicas {
					t.Errorf("%d replicas in the day, want %d", n, tc.replicas)
				}
				left := 0
				w.lost.Range(func(any, any) bool { left++; return true })
				if left != 0 {
					t.Error("what was lost is remembered")
				}
			})
		})
	}
}

// TestContestedBoundary: a contest does not delay the morning, nor an edit.
func TestContestedBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The delay takes the morning away from the resync.
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-01:00", "wake-delay=7s", "expected=5"))
		w.run()
		w.settle()
		w.putBack(15*time.Second, 30*time.Minute)
		w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationNightReplicas] = "1" })
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=1")
		w.putBack(15*time.Second, 29*time.Minute)
		w.until("2000-01-01T01:00:07Z")
		w.settle()
		w.expect("scale web=5", "status web=False/DayWindow")
	})
}

// TestStaggerIsPartOfBoundaries: the wake-up and what is told of it.
func TestStaggerIsPartOfBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-01:00", "wake-delay=5m"))
		w.Defaults.WakeStagger = 10 * time.Minute
		schedule, err := night.For("default", "web", nil, w.Defaults)
		if err != nil {
			t.Fatal(err)
		}
		wake := nighttest.Time(t, "2000-01-01T01:05:00Z").Add(schedule.WakeDelay)
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		if c := w.record("default", "web"); !strings.HasSuffix(c.Message, "until="+workload.FormatBoundary(wake)) {
			t.Errorf("message %q, want until %s", c.Message, workload.FormatBoundary(wake))
		}
		time.Sleep(time.Until(wake) - time.Millisecond)
		synctest.Wait()
		w.expect()
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
		w.until("2000-01-02T00:00:00Z") // going to sleep is never delayed
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
	})
}

// TestDelayPutsNobodyToSleep: in the wake delay of a night that it did not sleep, a Deployment
// stays as it is, whether it was kept up or opts in then.
func TestDelayPutsNobodyToSleep(t *testing.T) {
	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		edit func(*appsv1.Deployment)
	}{
		"kept up to the window's end":   {workloadtest.Deployment(3, "awake-until=2000-01-01T01:00:00Z"), nil},
		"kept up, and not any more":     {workloadtest.Deployment(3, "awake-until=2000-01-01T02:00:00Z"), func(d *appsv1.Deployment) { delete(d.Annotations, night.AnnotationAwakeUntil) }},
		"opted in between":              {workloadtest.Without(workloadtest.Deployment(3), "on"), func(d *appsv1.Deployment) { d.Annotations[night.AnnotationOn] = "true" }},
		"given another window in one's": {workloadtest.Deployment(3, "window=12:00-13:00"), func(d *appsv1.Deployment) { delete(d.Annotations, night.AnnotationWindow) }},
	} {
		for _, staggered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, staggered: %v", name, staggered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, clock.RealClock{}, tc.d.DeepCopy())
					window, err := night.ParseWindow("00:00-01:00")
					if err != nil {
						t.Fatal(err)
					}
					w.Defaults.Window = window
					if w.Defaults.WakeDelay = 10 * time.Minute; staggered {
						w.Defaults.WakeDelay, w.Defaults.WakeStagger = 0, time.Hour
					}
					w.run()
					w.until("2000-01-01T01:05:00Z")
					if tc.edit != nil {
						w.edit(tc.edit)
					}
					w.until("2000-01-01T03:00:00Z")
					for _, write := range w.taken() {
						if !strings.HasPrefix(write, "status web=False/") {
							t.Errorf("wrote %s", write)
						}
					}
				})
			})
		}
	}
}

// TestAutoscalersComeAndGo: at any time, and each change is looked at at once.
func TestAutoscalersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=12:00-13:00", "daytime=enforce"))
		w.watchAutoscalers()
		hpas := w.client.AutoscalingV2().HorizontalPodAutoscalers("default")
		scale := func(n int32) {
			d := w.live("default", "web")
			d.Spec.Replicas = ptr.To(n)
			w.store(d)
			w.settle()
		}
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		scale(6)
		w.expect("scale web=3")

		if _, err := hpas.Create(context.Background(), workloadtest.HPAFor("web", 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		scale(6)
		w.expect("status web=False/DayWindow") // the count is the autoscaler's, and not told of
		if got := w.events.reasons(); len(got) != 2 || got[1] != reasonAutoscalerConflict {
			t.Errorf("events %q", w.events.all())
		}
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		w.until("2000-01-01T13:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
		scale(8)
		w.expect()

		other := workloadtest.HPAFor("other", 2)
		other.ResourceVersion = "2"
		if _, err := hpas.Update(context.Background(), other, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expect() // one that is gone may be back in a moment
		time.Sleep(time.Minute)
		w.expect("scale web=3", "status web=False/DayWindow") // enforced again
		if err := hpas.Delete(context.Background(), "hpa", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expect()
	})
}

// TestAutoscalerNightCount: a night count above 0 is recorded, set once, and then left
// to the autoscaler.
func TestAutoscalerNightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(8, "window=12:00-13:00", "night-replicas=4"))
		w.watchAutoscalers()
		if err := w.tracker.Add(workloadtest.HPAFor("web", 2)); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("status web=True/GoingToSleep", "scale web=4", "status web=True/NightWindow")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) }) // the autoscaler
		w.settle()
		w.expect()
		w.until("2000-01-01T13:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
	})
}

// TestAutoscalerReplaced: one that is deleted and made anew costs no replicas, whether the
// controller sees it go or starts in between.
func TestAutoscalerReplaced(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(50, "window=12:00-13:00"))
			w.Settle = 30 * time.Second
			w.watchAutoscalers()
			hpas := w.client.AutoscalingV2().HorizontalPodAutoscalers("default")
			create := func() {
				if _, err := hpas.Create(t.Context(), workloadtest.HPAFor("web", 2), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				w.settle()
			}
			if !restarted {
				create()
			}
			w.run()
			w.settle()
			if !restarted {
				w.expect("status web=False/DayWindow")
				time.Sleep(time.Hour) // the start is long ago
				if err := hpas.Delete(t.Context(), "hpa", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(20 * time.Second)
			create()
			time.Sleep(time.Hour)
			if got := *w.live("default", "web").Spec.Replicas; got != 50 {
				t.Errorf("restarted %v: cut to %d", restarted, got)
			}
		})
	}
}

// TestUnreadable: where autoscalers cannot be read, the day is only woken to.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(8, "window=12:00-13:00"))
		w.Autoscalers = workload.NewAutoscalers(w.Clock, 30*time.Second)
		w.run()
		w.until("2000-01-01T12:30:00Z")
		w.expect("status web=False/DayWindow", "status web=True/NightWindow", "scale web=0")
		w.until("2000-01-01T14:00:00Z")
		w.expect("scale web=3", "status web=False/DayWindow")
		if err := w.Autoscalers.Attach(w.factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
			t.Fatal(err)
		}
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](8) })
		w.until("2000-01-01T15:00:00Z")
		w.expect()
		w.factory.StartWithContext(t.Context()) // they may be read now, and there is none
		w.until("2000-01-01T16:00:00Z")
		w.expect("scale web=3", "status web=False/DayWindow")
	})
}

// TestNeverManaged: we do not put ourselves to sleep, nor what a cluster cannot be without;
// what sleeps there already is woken and let go.
func TestNeverManaged(t *testing.T) {
	for name, ours := range map[string]func(*world, *appsv1.Deployment){
		"our ServiceAccount":     func(_ *world, d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "night" },
		"an excluded namespace":  func(w *world, _ *appsv1.Deployment) { w.Excluded = sets.New("default") },
		"another ServiceAccount": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			awake, asleep := workloadtest.Deployment(3), workloadtest.AsleepSince(workloadtest.Deployment(0))
			awake.Name, awake.UID = "awake", "uid-2"
			w := newWorld(t, clock.RealClock{})
			self := workload.Self{Namespace: "default", ServiceAccount: "night"}
			w.factory = informers.NewSharedInformerFactoryWithOptions(w.client, 30*time.Second, informers.WithTransform(self.Transform))
			w.Informer, w.Client.Self = w.factory.Apps().V1().Deployments().Informer(), self
			for _, d := range []*appsv1.Deployment{awake, asleep} {
				if ours != nil {
					ours(w, d)
				}
				if err := w.tracker.Add(d); err != nil {
					t.Fatal(err)
				}
			}
			w.run()
			w.settle()
			if ours == nil {
				if got := w.taken(); len(got) != 3 {
					t.Errorf("%s: writes %q", name, got)
				}
				return
			}
			w.expect("scale web=3", "status web=False/Released")
			w.until("2000-01-02T23:00:00Z")
			w.expect()
		})
	}
}
