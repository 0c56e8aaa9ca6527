package workload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"schedule-night/internal/night"
)

// TestApplied: what is written is read, and nothing else is.
func TestApplied(t *testing.T) {
	until := time.Date(2026, 11, 30, 7, 0, 0, 0, time.FixedZone("", 8*3600))
	for message, want := range map[string]Applied{
		"replicas=0 expected=3 until=2026-11-30T07:00:00+08:00":           {0, 3, until},
		"replicas=2147483647 expected=2147483647 until=-":                 {2147483647, 2147483647, time.Time{}},
		"replicas=9 expected=0 until=2026-11-30T07:00:00.5+08:00":         {9, 0, until.Add(time.Second / 2)}, // a night may be larger than a day
		"replicas=1 expected=2 until=2026-11-30T07:00:00.000000001+08:00": {1, 2, until.Add(1)},
		"replicas=1 expected=2 until=2026-11-29T23:00:00Z":                {1, 2, until},
	} {
		got, ok := ParseApplied(message)
		if !ok || got.Replicas != want.Replicas || got.Expected != want.Expected || !got.Until.Equal(want.Until) {
			t.Errorf("%s: %+v, %v", message, got, ok)
		}
		if got.String() != message {
			t.Errorf("%s is written as %s", message, got)
		}
		r := &Record{Status: corev1.ConditionTrue, Reason: ReasonNightWindow, Message: message}
		if !r.Until().Equal(want.Until) {
			t.Errorf("%s: until %v", message, r.Until())
		}
	}
	for _, message := range []string{
		"", "x", "replicas=0", "replicas=0 expected=3", "expected=3 until=-", "replicas=0 until=-", "replicas= expected=3 until=-", "replicas=-1 expected=3 until=-",
		"replicas=- expected=3 until=-", "replicas=0 expected= until=-", "replicas=0 expected=x until=-", "replicas=0 expected=3 until=", "replicas=0 expected=3 until=tomorrow",
		"replicas=0 expected=2147483648 until=-", "0 expected=3 until=-", " replicas=0 expected=3 until=-", "replicas=0  expected=3 until=-",
		"replicas=00 expected=3 until=-", "replicas=+0 expected=3 until=-", "replicas=0 expected=03 until=-", "replicas=0 expected=3 until=- ", "replicas=0 expected=3 until=-\n",
		"replicas=0 expected=3 until=- and more", "replicas=0 expected=3 until=2026-11-30T07:00:00Z and more", "replicas=0 expected=3 until=2026-11-30T07:00:00.50Z",
		"replicas=0 expected=3 until=2026-11-30T07:00:00+00:00", "replicas=0 expected=3 until=2026-11-30T7:00:00Z", "replicas=0 expected=3 until=2026-11-30T07:00:00,5Z",
		"replicas=0 expected=3 until=0001-01-01T00:00:00Z", "replicas=0 expected=3 until=- expected=3 until=-", "replicas=replicas=0 expected=3 until=-", "Replicas=0 expected=3 until=-",
	} {
		if got, ok := ParseApplied(message); ok || got != (Applied{}) {
			t.Errorf("%q is read as %+v", message, got)
		}
	}
	if r := (*Record)(nil); !r.Until().IsZero() {
		t.Error("no record has an end")
	}
	for _, r := range []*Record{
		{Status: corev1.ConditionTrue, Reason: ReasonNightWindow, Message: "replicas=0 expected=3 until=tomorrow"},
		{Status: corev1.ConditionUnknown, Reason: ReasonInvalidSchedule, Message: `schedule-night.svc/window " until=2026-11-30T07:00:00Z ": no`},
	} {
		if !r.Until().IsZero() {
			t.Errorf("%q: until %v", r.Message, r.Until())
		}
	}
	for _, r := range []*Record{
		{Status: corev1.ConditionFalse, Message: "replicas=- expected=3 until=2026-11-30T07:00:00+08:00"},
		{Status: corev1.ConditionUnknown, Reason: ReasonInvalidSchedule, Message: `x until=-; still asleep with replicas=0 expected=3 until=2026-11-30T07:00:00+08:00`},
	} {
		if !r.Until().Equal(until) {
			t.Errorf("%q: until %v", r.Message, r.Until())
		}
	}
}

// TestSlept: which records say that their workload sleeps, and at what.
func TestSlept(t *testing.T) {
	const applied = "replicas=1 expected=4 until=-"
	for _, tc := range []struct {
		status  corev1.ConditionStatus
		message string
		want    Applied
		slept   bool
	}{
		{corev1.ConditionTrue, applied, Applied{Replicas: 1, Expected: 4}, true},
		{corev1.ConditionTrue, "somebody's own text", Applied{}, true},
		{corev1.ConditionFalse, applied, Applied{}, false},
		{corev1.ConditionFalse, "x; still asleep with " + applied, Applied{}, false},
		{corev1.ConditionUnknown, "x", Applied{}, false},
		{corev1.ConditionUnknown, applied, Applied{}, false},
		{corev1.ConditionUnknown, "x; still asleep with " + applied, Applied{Replicas: 1, Expected: 4}, true},
		{corev1.ConditionUnknown, "y; still asleep with replicas=9 expected=9 until=-; still asleep with " + applied, Applied{Replicas: 1, Expected: 4}, true},
		{corev1.ConditionUnknown, "x; still asleep with " + applied + " ", Applied{}, false},
		{corev1.ConditionUnknown, "x; still asleep with " + applied + "…", Applied{}, false},
		{corev1.ConditionUnknown, `schedule-night.svc/window "; still asleep with ` + applied + `": no`, Applied{}, false},
		{corev1.ConditionUnknown, `schedule-night.svc/window "; still asleep with ` + applied + ` ": no`, Applied{}, false},
		{corev1.ConditionUnknown, "x; still asleep with " + applied + "; still asleep with ", Applied{}, false},
		{corev1.ConditionUnknown, "x; still asleep with somebody's own text", Applied{}, false},
		{"", applied, Applied{}, false},
	} {
		r := &Record{Status: tc.status, Reason: ReasonInvalidSchedule, Message: tc.message}
		if tc.status == corev1.ConditionTrue {
			r.Reason = ReasonNightWindow
		}
		if got, slept := r.Slept(); got != tc.want || slept != tc.slept || r.Asleep() != tc.slept {
			t.Errorf("%s %q: %+v, %v", tc.status, tc.message, got, slept)
		}
	}
	// Words that nobody of us has written are not believed, nor is a reason.
	for reason, want := range map[string]Applied{
		ReasonNightWindow: {Replicas: 1, Expected: 4}, ReasonAsleepUntil: {Replicas: 1, Expected: 4}, ReasonGoingToSleep: {Replicas: 1, Expected: 4},
		ReasonDayWindow: {}, ReasonInvalidSchedule: {}, "Somebody": {}, "": {},
	} {
		r := &Record{Status: corev1.ConditionTrue, Reason: reason, Message: applied}
		if got, slept := r.Slept(); !slept || got != want {
			t.Errorf("True %s: %+v, %v", reason, got, slept)
		}
		r = &Record{Status: corev1.ConditionUnknown, Reason: reason, Message: "x; still asleep with " + applied}
		if _, slept := r.Slept(); slept != (reason == ReasonInvalidSchedule) || r.Asleep() != slept {
			t.Errorf("Unknown %s: %v", reason, slept)
		}
	}
	if _, slept := (*Record)(nil).Slept(); slept {
		t.Error("without a record it sleeps")
	}
}

// TestWakeTo: whom to wake, and to what.
func TestWakeTo(t *testing.T) {
	applied := Applied{Replicas: 2, Expected: 5}
	for _, tc := range []struct {
		replicas int32
		expected string
		want     int32
	}{
		{2, "7", 7}, {1, "7", 7}, {0, "7", 7}, {3, "7", 3}, {2, "", 5}, {2, "many", 5}, {2, "0", 0},
	} {
		w := &Workload{Replicas: tc.replicas, Meta: Meta{Annotations: map[string]string{night.AnnotationExpected: tc.expected}}}
		if tc.expected == "" {
			w.Annotations = nil
		}
		if got := applied.WakeTo(w); got != tc.want {
			t.Errorf("%d replicas, expected %q: to %d, want %d", tc.replicas, tc.expected, got, tc.want)
		}
	}
}

// TestRecordOf: status and reason of a workload that follows its schedule.
func TestRecordOf(t *testing.T) {
	until := time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		asleep, override bool
		daytime          night.Daytime
		want             string
	}{
		{true, false, night.DaytimeEnforce, "True NightWindow replicas=1 expected=4 until=2026-11-30T07:00:00Z"},
		{true, true, night.DaytimeWakeOnly, "True AsleepUntil replicas=1 expected=4 until=2026-11-30T07:00:00Z"},
		{false, false, night.DaytimeEnforce, "False DayWindow replicas=4 expected=4 until=2026-11-30T07:00:00Z"},
		{false, true, night.DaytimeEnforce, "False AwakeUntil replicas=4 expected=4 until=2026-11-30T07:00:00Z"},
		{false, false, night.DaytimeWakeOnly, "False DayWindow replicas=- expected=4 until=2026-11-30T07:00:00Z"},
	} {
		r := RecordOf(&night.Schedule{On: true, Expected: 4, NightReplicas: 1, Daytime: tc.daytime}, night.State{Asleep: tc.asleep, Override: tc.override, Next: until})
		if got := string(r.Status) + " " + r.Reason + " " + r.Message; got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
	if r := ReleasedRecord(3); r.Status != corev1.ConditionFalse || r.Reason != "Released" || r.Message != "replicas=3 expected=3 until=-" {
		t.Errorf("released: %+v", r)
	}
}

// TestConcerned: whoever has opted in, and whoever has not and sleeps by our hand.
func TestConcerned(t *testing.T) {
	asleep := &Record{Status: corev1.ConditionTrue, Reason: ReasonNightWindow, Message: "replicas=0 expected=3 until=-"}
	released := ReleasedRecord(3)
	for _, tc := range []struct {
		on     string // "-" for no annotation
		record *Record
		want   bool
	}{
		{"true", nil, true}, {"false", nil, true}, {"yes", nil, true}, {"-", nil, false},
		{"-", asleep, true}, {"false", asleep, true}, {"-", &released, false},
	} {
		w := &Workload{Record: tc.record, Meta: Meta{Annotations: map[string]string{night.AnnotationExpected: "3"}}}
		if tc.on != "-" {
			w.Annotations[night.AnnotationOn] = tc.on
		}
		if got := w.Concerned(); got != tc.want {
			t.Errorf("on %s, record %v: %v", tc.on, tc.record, got)
		}
	}
}

// TestDiffers: each thing that a decision rests on, and no other.
func TestDiffers(t *testing.T) {
	since := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	w := &Workload{
		Meta:     Meta{UID: "1", ResourceVersion: "1", Annotations: map[string]string{"a": "b"}},
		Replicas: 3, Record: &Record{corev1.ConditionTrue, "R", "m", since},
	}
	for name, change := range map[string]func(*Workload){
		"replicas":               func(w *Workload) { w.Replicas++ },
		"the UID":                func(w *Workload) { w.UID = types.UID("2") },
		"being deleted":          func(w *Workload) { w.DeletionTimestamp = &metav1.Time{Time: since} },
		"an annotation":          func(w *Workload) { w.Annotations["a"] = "c" },
		"an annotation more":     func(w *Workload) { w.Annotations["b"] = "c" },
		"no annotations":         func(w *Workload) { w.Annotations = nil },
		"no record":              func(w *Workload) { w.Record = nil },
		"the record's status":    func(w *Workload) { w.Record.Status = corev1.ConditionFalse },
		"the record's reason":    func(w *Workload) { w.Record.Reason = "S" },
		"the record's message":   func(w *Workload) { w.Record.Message = "n" },
		"the record's time":      func(w *Workload) { w.Record.Since = since.Add(time.Second) },
		"":                       func(*Workload) {},
		"(another version)":      func(w *Workload) { w.ResourceVersion = "2" },
		"(the time elsewhere)":   func(w *Workload) { w.Record.Since = since.In(time.FixedZone("", 3600)) },
		"(what its Pods ask of)": func(w *Workload) { w.Requests = &Requests{Cores: 1} },
	} {
		changed := w.DeepCopy()
		change(changed)
		matters := name != "" && name[0] != '('
		if changed.Differs(w) != matters || w.Differs(changed) != matters {
			t.Errorf("%q: differs %v", name, changed.Differs(w))
		}
	}
}

// TestSays: a record reads as another if all but the time is the same.
func TestSays(t *testing.T) {
	r := &Record{corev1.ConditionTrue, "R", "m", time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)}
	for _, tc := range []struct {
		want Record
		says bool
	}{
		{Record{Status: corev1.ConditionTrue, Reason: "R", Message: "m"}, true},
		{Record{Status: corev1.ConditionFalse, Reason: "R", Message: "m"}, false},
		{Record{Status: corev1.ConditionTrue, Reason: "S", Message: "m"}, false},
		{Record{Status: corev1.ConditionTrue, Reason: "R", Message: "n"}, false},
	} {
		if r.Says(tc.want) != tc.says {
			t.Errorf("%+v: %v", tc.want, !tc.says)
		}
	}
	if (*Record)(nil).Says(Record{}) {
		t.Error("no record says something")
	}
}
