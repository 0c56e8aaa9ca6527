package workload

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"schedule-night/internal/night"
)

// ConditionAsleep is our condition on a Deployment's status: True while it
// sleeps, False while it is awake, Unknown while its schedule cannot be read.
// It is also our record: the API server keeps it over our restarts.
const ConditionAsleep appsv1.DeploymentConditionType = night.Prefix + "Asleep"

// Reasons of a record.
const (
	ReasonNightWindow     = "NightWindow"     // True: the window says so
	ReasonAsleepUntil     = "AsleepUntil"     // True: the override says so
	ReasonGoingToSleep    = "GoingToSleep"    // True: the night's count, which is an autoscaler's to change once it was there, has not been seen yet
	ReasonDayWindow       = "DayWindow"       // False: the window says so
	ReasonAwakeUntil      = "AwakeUntil"      // False: the override says so
	ReasonReleased        = "Released"        // False: opted out while asleep; also an event
	ReasonInvalidSchedule = "InvalidSchedule" // Unknown; also an event
)

// What a record has room for, in bytes. The admission policy refuses more, so that nobody
// with our rights can fill an object up.
const (
	maxReason  = 64
	maxMessage = 1024
)

// Record is what we have written down on a workload.
type Record struct {
	Status          corev1.ConditionStatus
	Reason, Message string
	Since           time.Time // when the status last changed; whole seconds
}

// equal tells whether two records, each nil for none, are the same.
func (r *Record) equal(other *Record) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Status == other.Status && r.Reason == other.Reason && r.Message == other.Message && r.Since.Equal(other.Since)
}

// Says tells whether the record, nil for none, reads as want, whatever its time.
func (r *Record) Says(want Record) bool {
	return r != nil && r.Status == want.Status && r.Reason == want.Reason && r.Message == want.Message
}

// stillAsleep, before what was applied, ends the message of a record that has become
// Unknown in the night: a workload must not be forgotten because its schedule was broken
// while it slept. What stands before it has an owner's words in it, which may be the same:
// only what ends the message, and is exactly ours, is read.
const stillAsleep = "; still asleep with "

// remembered is what the end of a message tells of a night.
func remembered(message string) (applied Applied, at int, ok bool) {
	at = strings.LastIndex(message, stillAsleep)
	if at < 0 {
		return Applied{}, at, false
	}
	applied, ok = ParseApplied(message[at+len(stillAsleep):])
	return applied, at, ok
}

// Asleep tells whether the record, nil for none, says that the workload was put to sleep
// and has not been woken.
func (r *Record) Asleep() bool {
	_, asleep := r.Slept()
	return asleep
}

// Slept is what was applied to a workload whose record says that it is Asleep. A record
// that somebody has made unreadable counts as that of 0 replicas.
func (r *Record) Slept() (applied Applied, slept bool) {
	switch {
	case r == nil:
	case r.Status == corev1.ConditionTrue:
		if r.Reason == ReasonNightWindow || r.Reason == ReasonAsleepUntil || r.Reason == ReasonGoingToSleep {
			applied, _ = ParseApplied(r.Message)
		}
		return applied, true
	case r.Status == corev1.ConditionUnknown && r.Reason == ReasonInvalidSchedule:
		applied, _, slept = remembered(r.Message)
	}
	return applied, slept
}

// Held is what a record, nil for none, says that a schedule held in the day.
func (r *Record) Held() (Applied, bool) {
	if r == nil || r.Status != corev1.ConditionFalse || r.Reason == ReasonReleased {
		return Applied{}, false
	}
	return ParseApplied(r.Message)
}

// RecordOf is the record of a workload that follows its schedule. The day's count of one
// that is only woken is nobody's promise, and is not in it.
func RecordOf(s *night.Schedule, state night.State) Record {
	r := Record{
		Status:  corev1.ConditionFalse,
		Reason:  ReasonDayWindow,
		Message: Applied{s.Replicas(state.Asleep), s.Expected, state.Next}.text(state.Asleep || s.Daytime != night.DaytimeWakeOnly),
	}
	switch {
	case state.Asleep && state.Override:
		r.Status, r.Reason = corev1.ConditionTrue, ReasonAsleepUntil
	case state.Asleep:
		r.Status, r.Reason = corev1.ConditionTrue, ReasonNightWindow
	case state.Override:
		r.Reason = ReasonAwakeUntil
	}
	return r
}

// InvalidRecord is that of a workload whose schedule cannot be acted on. It remembers
// what was applied to one that slept: of a message that is too long, the error is cut.
func InvalidRecord(err error, applied Applied, slept bool) Record {
	text, memory := err.Error(), ""
	if slept {
		memory = stillAsleep + applied.String()
	} else if _, _, forged := remembered(text); forged {
		text += "." // which we would not write
	}
	if room := maxMessage - len(memory); len(text) > room {
		const more = "…"
		text = strings.ToValidUTF8(text[:room-len(more)], "") + more
	}
	return Record{Status: corev1.ConditionUnknown, Reason: ReasonInvalidSchedule, Message: text + memory}
}

// ReleasedRecord is that of a workload that was let go with so many replicas.
func ReleasedRecord(replicas int32) Record {
	return Record{Status: corev1.ConditionFalse, Reason: ReasonReleased, Message: Applied{replicas, replicas, time.Time{}}.String()}
}

// Applied is what the message of a record says: the count that was applied, the day's
// count, and until when; zero if there was no boundary ahead.
type Applied struct {
	Replicas, Expected int32
	Until              time.Time
}

// maxYear is the last that JSON has: no instant after it is ours.
const maxYear = 9999

// The parts of the message: "replicas=0 expected=3 until=2026-11-30T07:00:00+08:00".
const (
	replicasField = "replicas="
	expectedField = " expected="
	untilField    = " until="
)

// String is the message.
func (a Applied) String() string { return a.text(true) }

// text is the message, with "-" for a count that is not held. Each pass makes it, so it
// costs one allocation.
func (a Applied) text(held bool) string {
	b := append(make([]byte, 0, 96), replicasField...)
	if held {
		b = strconv.AppendInt(b, int64(a.Replicas), 10)
	} else {
		b = append(b, '-')
	}
	b = append(b, expectedField...)
	b = strconv.AppendInt(b, int64(a.Expected), 10)
	b = append(b, untilField...)
	return string(appendBoundary(b, a.Until))
}

// ParseApplied reads what String writes, and nothing else: neither other ways to write the
// same, nor text around it.
func ParseApplied(message string) (a Applied, ok bool) {
	replicas, rest, _ := strings.Cut(strings.TrimPrefix(message, replicasField), expectedField)
	expected, until, _ := strings.Cut(rest, untilField)
	var err1, err2, err3 error
	a.Replicas, err1 = night.ParseReplicas(replicas)
	a.Expected, err2 = night.ParseReplicas(expected)
	if until != FormatBoundary(time.Time{}) {
		a.Until, err3 = time.Parse(time.RFC3339, until)
	}
	if err1 != nil || err2 != nil || err3 != nil || a.String() != message || a.Until.UTC().Year() > maxYear {
		return Applied{}, false
	}
	return a, true
}

// Until is the boundary that the record names, nil for no record; zero if it names none.
func (r *Record) Until() time.Time {
	if applied, slept := r.Slept(); r == nil || slept || r.Status == corev1.ConditionUnknown {
		return applied.Until
	}
	_, until, _ := strings.Cut(r.Message, untilField)
	t, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return time.Time{}
	}
	return t
}

// WakeTo is the count of a workload that is let go: the day's, if it has the count that was
// applied, or less, else the one that it has. Who has more does not sleep.
func (a Applied) WakeTo(w *Workload) int32 {
	if w.Replicas > a.Replicas {
		return w.Replicas
	}
	if n, err := night.ParseReplicas(w.Annotations[night.AnnotationExpected]); err == nil {
		return n
	}
	return a.Expected
}

// FormatBoundary writes a boundary in its own zone, "-" where there is none.
func FormatBoundary(t time.Time) string { return string(appendBoundary(nil, t)) }

func appendBoundary(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, '-')
	}
	return t.AppendFormat(b, time.RFC3339Nano) // a fraction of a second only where there is one
}

// conditionRecord is the record that a Deployment carries, nil if there is none.
func conditionRecord(d *appsv1.Deployment) *Record {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == ConditionAsleep {
			r := keptRecord(c)
			return sharedRecords.of(r, len(r.Reason)+len(r.Message), func() *Record { return &r })
		}
	}
	return nil
}

// keptRecord is a condition as a record. Of one that is too large to be ours nothing is
// kept that is, so that it reads as none of ours; only what it remembers of a night is.
func keptRecord(c *appsv1.DeploymentCondition) Record {
	r := Record{c.Status, c.Reason, c.Message, c.LastTransitionTime.Time}
	switch c.Status {
	case corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
	default:
		r.Status = ""
	}
	if len(r.Reason) > maxReason {
		r.Reason = ""
	}
	if len(r.Message) > maxMessage {
		_, at, ok := remembered(r.Message)
		if !ok {
			at = len(r.Message)
		}
		r.Message = strings.Clone(r.Message[at:])
	}
	return r
}

// condition is the record in the form that a Deployment carries.
func (r *Record) condition(now time.Time) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type: ConditionAsleep, Status: r.Status, Reason: r.Reason, Message: r.Message,
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(r.Since),
	}
}
