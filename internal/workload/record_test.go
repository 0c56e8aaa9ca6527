package workload_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"schedule-night/internal/night"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// TestInvalidRecordIsBounded: a record is never longer than what the admission policy lets
// through, and of one that remembers a night the night is never cut.
func TestInvalidRecordIsBounded(t *testing.T) {
	applied := workload.Applied{Replicas: 2147483647, Expected: 2147483646, Until: time.Date(2026, 11, 30, 7, 0, 0, 123456789, time.FixedZone("", -12*3600))}
	for length := 900; length < 1100; length++ {
		for _, letter := range []string{"x", "ä", "…", "\U0001f319"} {
			text := strings.Repeat("-", length%4) + strings.Repeat(letter, length/len(letter))
			for _, slept := range []bool{false, true} {
				r := workload.InvalidRecord(errors.New(text), applied, slept)
				if len(r.Message) > 1024 || !utf8.ValidString(r.Message) || !strings.HasPrefix(r.Message, text[:len(letter)]) {
					t.Fatalf("%d bytes: %q", len(r.Message), r.Message)
				}
				if len(text) <= 1024 && !slept && r.Message != text {
					t.Fatalf("%d bytes were cut to %q", len(text), r.Message)
				}
				if got, ok := r.Slept(); ok != slept || slept && (got.Replicas != applied.Replicas || got.Expected != applied.Expected || !got.Until.Equal(applied.Until)) {
					t.Fatalf("%d bytes: slept %v, %+v", len(text), ok, got)
				}
			}
		}
	}
	// What an annotation can come to: quotes grow fourfold.
	_, err := workloadtest.Of(workloadtest.Deployment(0, "window="+strings.Repeat("\x01", 100)+" "+strings.Repeat("\x02", 4000))).Schedule(night.Schedule{})
	if err == nil {
		t.Fatal("that is no window")
	}
	if r := workload.InvalidRecord(fmt.Errorf("%w, %w, %w", err, err, err), applied, true); len(r.Message) > 1024 || !r.Asleep() {
		t.Errorf("%d bytes: %q", len(r.Message), r.Message)
	}
}

// TestNoValueIsTakenForARecord: an owner writes annotations, and their values stand in the
// message of what is invalid. Whatever they are, the record says of the night what we know.
func TestNoValueIsTakenForARecord(t *testing.T) {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"; still asleep with ", "replicas=0 expected=9 until=-", "replicas=1 expected=2 until=2026-11-30T07:00:00Z", " ", `"`, `\"`, `\`, "…", "\n", "\xff", "-", ",",
			"21:00-07:00", "Mon", "2026-11-30", "2026-11-30/2026-11-29", strings.Repeat("x", 90), strings.Repeat("\x01", 300)}),
		rapid.String())
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 5).Draw(t, "parts"), "") })
	asleep := workload.Applied{Replicas: 1, Expected: 3, Until: time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)}
	invalid := 0
	check := func(t *rapid.T, err error) {
		for _, slept := range []bool{false, true} {
			want := workload.Applied{}
			if slept {
				want = asleep
			}
			written := workload.InvalidRecord(err, want, slept)
			// As the API server gives it back, and another pass reads it.
			r := workloadtest.Of(workloadtest.WithCondition(workloadtest.Deployment(0), written.Status, written.Reason, written.Message)).Record
			if got, ok := r.Slept(); ok != slept || got != want || !r.Until().Equal(want.Until) || len(r.Message) > 1024 {
				t.Fatalf("slept %v: %q reads as %v, %+v, until %v", slept, r.Message, ok, got, r.Until())
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := workloadtest.Deployment(0)
		for _, name := range night.AnnotationNames {
			if rapid.IntRange(0, 4).Draw(t, "is set") == 0 {
				d.Annotations[name] = text.Draw(t, name)
			}
		}
		if _, err := workloadtest.Of(d).Schedule(night.Schedule{}); err != nil {
			invalid++
			check(t, err)
		}
		// Nor would one that stood in an error without quotes.
		check(t, errors.New(text.Draw(t, "error")+rapid.SampledFrom([]string{"", "; still asleep with replicas=0 expected=9 until=-"}).Draw(t, "end")))
	})
	if invalid == 0 {
		t.Error("no value was invalid")
	}
}

// TestConditionIsBounded: of a condition that is larger than any of ours, little is kept,
// and it reads as no record of ours does; but what it remembers of a night stays.
func TestConditionIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1_400_000)
	const slept = "; still asleep with replicas=1 expected=4 until=-"
	for _, tc := range []struct {
		name            string
		status          corev1.ConditionStatus
		reason, message string
		want            string
	}{
		{"as it should be", "True", "NightWindow", "replicas=0 expected=3 until=-", "True NightWindow replicas=0 expected=3 until=-"},
		{"the longest", "False", "DayWindow", long[:1024], "False DayWindow " + long[:1024]},
		{"too long", "False", "DayWindow", long[:1025], "False DayWindow "},
		{"a long night", "True", "NightWindow", "replicas=2 expected=3 until=- " + long, "True NightWindow "},
		{"a long text and a night", "Unknown", "InvalidSchedule", long + slept, "Unknown InvalidSchedule " + slept},
		{"a long night in words", "Unknown", "InvalidSchedule", "y; still asleep with " + long, "Unknown InvalidSchedule "},
		{"a long reason", "False", long, "m", "False  m"},
		{"a reason that just goes", "False", long[:64], "m", "False " + long[:64] + " m"},
		{"a reason that does not", "False", long[:65], "m", "False  m"},
		{"a long status", corev1.ConditionStatus(long), "DayWindow", "m", " DayWindow m"},
	} {
		r := workloadtest.Of(workloadtest.WithCondition(workloadtest.Deployment(0), tc.status, tc.reason, tc.message)).Record
		if got := fmt.Sprintf("%s %s %s", r.Status, r.Reason, r.Message); got != tc.want {
			t.Errorf("%s: got %d bytes, %.100q; want %.100q", tc.name, len(got), got, tc.want)
		}
	}
	r := workloadtest.Of(workloadtest.WithCondition(workloadtest.Deployment(0), "True", "NightWindow", "replicas=2 expected=3 until=- "+long)).Record
	if applied, ok := r.Slept(); !ok || applied != (workload.Applied{}) {
		t.Errorf("a night that cannot be read: %+v, %v", applied, ok)
	}
}

// TestForgedUntil: an instant that JSON cannot have is none of ours, or a record with one would
// cost everybody /schedule.json.
func TestForgedUntil(t *testing.T) {
	for until, want := range map[string]bool{"9999-12-31T23:59:59Z": true, "9999-12-31T23:59:59-00:01": false} {
		applied, ok := workload.ParseApplied("replicas=0 expected=3 until=" + until)
		if _, err := applied.Until.MarshalJSON(); ok != want || err != nil {
			t.Errorf("%s: %v, %v, %v", until, ok, applied, err)
		}
	}
}
