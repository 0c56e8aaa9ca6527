package main

import (
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDecide is the table in the comment of decide.
func TestDecide(t *testing.T) {
	const day, evening = "2026-11-28T12:00:00Z", "2026-11-28T23:00:00Z"
	deleted := workloadtest.Deployment(3)
	deleted.DeletionTimestamp = &metav1.Time{Time: nighttest.Time(t, day)}
	nilReplicas := workloadtest.Deployment(0)
	nilReplicas.Spec.Replicas = nil
	nilReplicasOne := workloadtest.Deployment(0, "expected=1")
	nilReplicasOne.Spec.Replicas = nil

	awakeSince := func(message string, annotations ...string) *appsv1.Deployment {
		return workloadtest.WithCondition(workloadtest.Deployment(3, append(annotations, "wake-delay=10m")...), corev1.ConditionFalse, workload.ReasonAwakeUntil, message)
	}

	for _, tc := range []struct {
		name string
		now  string
		d    *appsv1.Deployment
		want string // replicas to write or "-", condition status/reason or "-", next
		hpa  *workload.Autoscaler
	}{
		{"being deleted", evening, deleted, "- - -", nil},
		{"never opted in", evening, workloadtest.Without(workloadtest.Deployment(3), "on"), "- - -", nil},
		{"opted out", evening, workloadtest.Deployment(3, "on=false"), "- - -", nil},
		{"asleep", evening, workloadtest.Deployment(3), "0 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"asleep already", evening, workloadtest.Deployment(0), "- True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"asleep at a night count", evening, workloadtest.Deployment(3, "night-replicas=1"), "1 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"from 0 up to a night count", evening, workloadtest.Deployment(0, "night-replicas=1"), "1 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"bigger at night", evening, workloadtest.Deployment(3, "night-replicas=9"), "9 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"nil replicas means 1", evening, nilReplicas, "0 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"nil replicas and 1 expected", day, nilReplicasOne, "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"awake", day, workloadtest.Deployment(0), "3 False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"awake already", day, workloadtest.Deployment(3), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"enforced against more", day, workloadtest.Deployment(5), "3 False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"kept up", evening, workloadtest.Deployment(3, "awake-until=2026-11-29T01:00:00Z"), "- False/AwakeUntil 2026-11-29T01:00:00Z", nil},
		{"sent to sleep", day, workloadtest.Deployment(3, "asleep-until=2026-11-28T13:00:00Z"), "0 True/AsleepUntil 2026-11-28T13:00:00Z", nil},
		{"wake-only leaves more", day, workloadtest.Deployment(8, "daytime=wake-only"), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only leaves less", day, workloadtest.Deployment(2, "daytime=wake-only"), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only leaves a 0 that somebody chose", day, workloadtest.WithCondition(workloadtest.Deployment(0, "daytime=wake-only"), corev1.ConditionFalse, workload.ReasonDayWindow, "replicas=- expected=3 until=2026-11-28T21:00:00Z"), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only wakes from a night count that nobody recorded", day, workloadtest.Deployment(1, "daytime=wake-only", "night-replicas=1"), "3 False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"but leaves more than that", day, workloadtest.Deployment(2, "daytime=wake-only", "night-replicas=1"), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only wakes from 0", day, workloadtest.Deployment(0, "daytime=wake-only"), "3 False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only wakes from a night count", day, workloadtest.AsleepSince(workloadtest.Deployment(1, "daytime=wake-only")), "3 False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only does not cut on waking", day, workloadtest.AsleepSince(workloadtest.Deployment(8, "daytime=wake-only")), "- False/DayWindow 2026-11-28T21:00:00Z", nil},
		{"wake-only sleeps like any other", evening, workloadtest.Deployment(8, "daytime=wake-only"), "0 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"invalid", evening, workloadtest.Deployment(3, "window=9pm-7am"), "- Unknown/InvalidSchedule -", nil},
		{"invalid opt-in", evening, workloadtest.Deployment(3, "on=yes"), "- Unknown/InvalidSchedule -", nil},
		{"nothing expected", evening, workloadtest.Without(workloadtest.Deployment(3), "expected"), "- Unknown/InvalidSchedule -", nil},
		{"both overrides ahead", evening, workloadtest.Deployment(3, "awake-until=2026-11-29T01:00:00Z", "asleep-until=2026-11-29T02:00:00Z"), "- Unknown/InvalidSchedule 2026-11-29T01:00:00Z", nil},
		{"both overrides ahead, asleep for longer", evening, workloadtest.AsleepSince(workloadtest.Deployment(0, "awake-until=2026-11-29T01:00:00Z", "asleep-until=2026-11-29T02:00:00Z")), "- Unknown/InvalidSchedule 2026-11-29T01:00:00Z", nil},
		{"both overrides ahead, asleep for less", evening, workloadtest.AsleepSince(workloadtest.Deployment(0, "awake-until=2026-11-29T09:00:00Z", "asleep-until=2026-11-29T10:00:00Z")), "- Unknown/InvalidSchedule 2026-11-29T07:00:00Z", nil},
		{"released", evening, workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on"), "3 False/Released -", nil},
		{"released to the annotation", evening, workloadtest.AsleepSince(workloadtest.Deployment(0, "on=false", "expected=5")), "5 False/Released -", nil},
		{"released to the record", evening, workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on", "expected"), "3 False/Released -", nil},
		{"released from a bad annotation", evening, workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0, "expected=x")), "on"), "3 False/Released -", nil},
		{"released with another count", evening, workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(2)), "on"), "- False/Released -", nil},
		{"released from a night that is larger than the day", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(9), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=9 expected=3 until=2026-11-29T07:00:00Z"), "on"), "3 False/Released -", nil},
		{"released before", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(0), corev1.ConditionFalse, workload.ReasonReleased, "replicas=3 expected=3 until=-"), "on"), "- - -", nil},
		{"broken while asleep", evening, workloadtest.AsleepSince(workloadtest.Deployment(0, "window=x")), "- Unknown/InvalidSchedule 2026-11-29T07:00:00Z", nil},
		{"broken while asleep, and its night is over", "2026-11-29T07:00:00Z", workloadtest.AsleepSince(workloadtest.Deployment(0, "window=x")), "3 Unknown/InvalidSchedule -", nil},
		{"broken while asleep, and scaled by somebody", "2026-11-29T07:00:00Z", workloadtest.AsleepSince(workloadtest.Deployment(1, "window=x")), "- Unknown/InvalidSchedule -", nil},
		{"broken in a night without end", evening, workloadtest.WithCondition(workloadtest.Deployment(0, "window=x"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=0 expected=3 until=-"), "- Unknown/InvalidSchedule -", nil},
		{"broken in a night that is larger than the day", "2026-11-29T07:00:00Z", workloadtest.WithCondition(workloadtest.Deployment(9, "window=x"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=9 expected=3 until=2026-11-29T07:00:00Z"), "- Unknown/InvalidSchedule -", nil},
		{"recorded for a night that is over, and awake since", evening, workloadtest.WithCondition(workloadtest.Deployment(5), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=0 expected=3 until=2026-11-28T07:00:00Z"), "0 True/NightWindow 2026-11-29T07:00:00Z", nil},
		{"released after it was broken while asleep", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(0), corev1.ConditionUnknown, workload.ReasonInvalidSchedule, `schedule-night.svc/window "x": no; still asleep with replicas=0 expected=4 until=-`), "on", "expected"), "4 False/Released -", nil},
		{"opted out after a value that reads as a night", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(0), corev1.ConditionUnknown, workload.ReasonInvalidSchedule, `schedule-night.svc/window "; still asleep with replicas=0 expected=9 until=- ": no`), "on", "expected"), "- - -", nil},
		{"released with a record that was wiped", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(0), corev1.ConditionTrue, workload.ReasonNightWindow, ""), "on"), "3 False/Released -", nil},
		{"an autoscaler makes the day wake-only", day, workloadtest.Deployment(8), "- False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"whatever daytime says", day, workloadtest.Deployment(8, "daytime=enforce"), "- False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"it is woken from 0", day, workloadtest.AsleepSince(workloadtest.Deployment(0)), "3 False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"at 0 nobody has chosen it", day, workloadtest.Deployment(0), "3 False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"but where it may be its own choice", day, workloadtest.Deployment(0), "- False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", ToZero: true}},
		{"and not ours", day, workloadtest.AsleepSince(workloadtest.Deployment(0)), "3 False/DayWindow 2026-11-28T21:00:00Z", &workload.Autoscaler{Name: "hpa", ToZero: true}},
		{"at 0 it stands aside", evening, workloadtest.Deployment(8), "0 True/NightWindow 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"and somebody's change is not its", evening, workloadtest.AsleepSince(workloadtest.Deployment(8)), "0 True/NightWindow 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"its minimum is the night count", evening, workloadtest.Deployment(8, "night-replicas=1"), "2 True/GoingToSleep 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"a night count above its minimum", evening, workloadtest.Deployment(8, "night-replicas=4"), "4 True/GoingToSleep 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"which is then its to change", evening, workloadtest.WithCondition(workloadtest.Deployment(6, "night-replicas=4"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "- True/NightWindow 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"until it is edited", evening, workloadtest.WithCondition(workloadtest.Deployment(6, "night-replicas=5"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "5 True/GoingToSleep 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"until it was seen there", evening, workloadtest.WithCondition(workloadtest.Deployment(6, "night-replicas=4"), corev1.ConditionTrue, workload.ReasonGoingToSleep, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "4 True/GoingToSleep 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"and at 0 it stands aside until it is raised", evening, workloadtest.WithCondition(workloadtest.Deployment(0, "night-replicas=4"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "4 True/NightWindow 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"once it is there", evening, workloadtest.WithCondition(workloadtest.Deployment(4, "night-replicas=4"), corev1.ConditionTrue, workload.ReasonGoingToSleep, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "- True/NightWindow 2026-11-29T07:00:00Z", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"opted out before it was set", evening, workloadtest.Without(workloadtest.WithCondition(workloadtest.Deployment(8, "night-replicas=4"), corev1.ConditionTrue, workload.ReasonGoingToSleep, "replicas=4 expected=3 until=2026-11-29T07:00:00Z"), "on"), "- False/Released -", &workload.Autoscaler{Name: "hpa", Min: 2}},
		{"a wake delay", "2026-11-29T07:03:00Z", workloadtest.AsleepSince(workloadtest.Deployment(0, "wake-delay=10m")), "- True/NightWindow 2026-11-29T07:10:00Z", nil},
		{"a night that will have a delay", evening, workloadtest.Deployment(3, "wake-delay=10m"), "0 True/NightWindow 2026-11-29T07:10:00Z", nil},
		{"a delay puts nobody to sleep", "2026-11-29T07:03:00Z", workloadtest.Deployment(3, "wake-delay=10m"), "- False/DayWindow 2026-11-29T21:00:00Z", nil},
		{"nor who was awake in the night", "2026-11-29T07:03:00Z", awakeSince("replicas=3 expected=3 until=2026-11-29T07:00:00Z", "awake-until=2026-11-29T07:00:00Z"), "- False/DayWindow 2026-11-29T21:00:00Z", nil},
		{"nor who was awake since its night", "2026-11-29T07:03:00Z", workloadtest.WithCondition(workloadtest.Deployment(3, "wake-delay=10m"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=0 expected=3 until=2026-11-28T07:10:00Z"), "- False/DayWindow 2026-11-29T21:00:00Z", nil},
		{"but who sleeps is held in it", "2026-11-29T07:03:00Z", workloadtest.WithCondition(workloadtest.Deployment(3, "wake-delay=10m"), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=0 expected=3 until=2026-11-29T07:10:00Z"), "0 True/NightWindow 2026-11-29T07:10:00Z", nil},
		{"and who slept while its schedule was broken", "2026-11-29T07:03:00Z", workloadtest.WithCondition(workloadtest.Deployment(0, "wake-delay=10m"), corev1.ConditionUnknown, workload.ReasonInvalidSchedule, "x; still asleep with replicas=0 expected=3 until=2026-11-29T07:10:00Z"), "- True/NightWindow 2026-11-29T07:10:00Z", nil},
		{"a night in the delay of another", "2026-11-29T07:03:00Z", workloadtest.Deployment(3, "wake-delay=10m", "window=21:00-07:00, 07:05-08:00"), "- False/DayWindow 2026-11-29T07:05:00Z", nil},
		{"and both for who sleeps", "2026-11-29T07:03:00Z", workloadtest.AsleepSince(workloadtest.Deployment(0, "wake-delay=10m", "window=21:00-07:00, 07:05-08:00")), "- True/NightWindow 2026-11-29T08:10:00Z", nil},
		{"sent to sleep in a delay", "2026-11-29T07:03:00Z", workloadtest.Deployment(3, "wake-delay=10m", "asleep-until=2026-11-29T07:05:00Z"), "0 True/AsleepUntil 2026-11-29T07:10:00Z", nil},
		{"at the night count in a delay, and nobody recorded it", "2026-11-29T07:03:00Z", workloadtest.Deployment(0, "wake-delay=10m"), "3 False/DayWindow 2026-11-29T21:00:00Z", nil},
	} {
		out := decide(workloadtest.Of(tc.d), nighttest.Defaults(t), tc.hpa, nighttest.Time(t, tc.now))
		got := []string{"-", "-", workload.FormatBoundary(out.Now.Next)}
		if out.Scale {
			got[0] = strconv.Itoa(int(out.Replicas))
		}
		if out.Record.Reason != "" {
			got[1] = string(out.Record.Status) + "/" + out.Record.Reason
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestDecideOrder: going to sleep is recorded before it is done, and so is a night count that
// is raised. All else is done first.
func TestDecideOrder(t *testing.T) {
	const until = "2026-11-29T07:00:00Z"
	recorded := func(replicas int32, applied, until string, annotations ...string) *appsv1.Deployment {
		return workloadtest.WithCondition(workloadtest.Deployment(replicas, annotations...), corev1.ConditionTrue, workload.ReasonNightWindow, "replicas="+applied+" expected=3 until="+until)
	}
	hpa := &workload.Autoscaler{Name: "hpa", Min: 1}
	for _, tc := range []struct {
		name string
		now  string
		d    *appsv1.Deployment
		hpa  *workload.Autoscaler
		want string // replicas to write or "-"; what is written first
	}{
		{"awake", "2026-11-28T23:00:00Z", workloadtest.Deployment(3), nil, "0 record"},
		{"recorded, not done", "2026-11-28T23:00:00Z", recorded(3, "0", until), nil, "0 count"},
		{"done", "2026-11-28T23:00:00Z", recorded(0, "0", until), nil, "- count"},
		{"a night count raised", "2026-11-28T23:00:00Z", recorded(0, "0", until, "night-replicas=1"), nil, "1 record"},
		{"a night count lowered", "2026-11-28T23:00:00Z", recorded(2, "2", until, "night-replicas=1"), nil, "1 count"},
		{"below its night count", "2026-11-28T23:00:00Z", recorded(1, "2", until, "night-replicas=2"), nil, "2 count"},
		{"awake since the night that is recorded", "2026-11-29T21:00:00Z", recorded(3, "0", until), nil, "0 record"},
		{"since this very instant", until, recorded(3, "0", until, "window=07:00-08:00"), nil, "0 record"},
		{"scaled in the night", "2026-11-29T06:59:59Z", recorded(3, "0", until), nil, "0 count"},
		{"scaled in a night without end", "2026-11-29T06:59:59Z", recorded(3, "0", "-"), nil, "0 count"},
		{"not woken since", "2026-11-29T21:00:00Z", recorded(1, "1", until), nil, "0 count"},
		{"left to an autoscaler", "2026-11-28T23:00:00Z", recorded(3, "2", until, "night-replicas=2"), hpa, "- count"},
		{"recorded, not done, under one", "2026-11-28T23:00:00Z", workloadtest.WithCondition(workloadtest.Deployment(3, "night-replicas=2"), corev1.ConditionTrue, workload.ReasonGoingToSleep, "replicas=2 expected=3 until="+until), hpa, "2 record"},
		{"waking", until, recorded(0, "0", until), nil, "3 count"},
		{"released", until, workloadtest.Without(recorded(0, "0", until), "on"), nil, "3 count"},
		{"broken, at the night's end", until, recorded(0, "0", until, "window=x"), nil, "3 count"},
	} {
		out := decide(workloadtest.Of(tc.d), nighttest.Defaults(t), tc.hpa, nighttest.Time(t, tc.now))
		got := "- count"
		if out.Scale {
			got = strconv.Itoa(int(out.Replicas)) + " count"
		}
		if out.RecordFirst {
			got = strings.ReplaceAll(got, "count", "record")
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}
