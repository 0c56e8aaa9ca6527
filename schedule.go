package main

import (
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// decide is the table of what a workload's annotations and the clock ask for:
//
//	being deleted                         nothing
//	not managed, not recorded asleep      nothing
//	not managed any more, recorded asleep back to the day's count if it has the night's or less; Released
//	schedule invalid, recorded asleep     untouched until the night's end, then raised to the recorded count; Unknown
//	schedule invalid otherwise            untouched; Unknown
//	asleep                                the night's count; True
//	awake, enforce                        the expected count; False
//	awake, wake-only                      at least the expected count if it was asleep; False
//	  without any record                  the same if it has the night's count or less
//
// Going to sleep is recorded before it is done, waking is done before it is recorded: so
// nothing is ever at its night count by our hand without a record that says so.
//
// In a wake delay nothing is put to sleep: to what is not recorded asleep, its night ended
// with the window.
//
// An autoscaler that targets the workload (nil: none) makes its day wake-only. At 0
// replicas it stands aside; a night count above 0 is set on going to sleep, not below
// the autoscaler's minimum, and then left to it. What it may have scaled to 0 itself is
// left at 0.
func decide(w *workload.Workload, defaults night.Schedule, hpa *workload.Autoscaler, now time.Time) outlook.Decision {
	out := outlook.Decision{State: outlook.Unmanaged, Replicas: w.Replicas}
	if w.DeletionTimestamp != nil {
		return out
	}
	applied, slept := w.Record.Slept()
	schedule, err := w.Schedule(defaults)
	switch {
	case err != nil:
		return invalid(out, w, err, now)
	case !schedule.On && slept:
		return letGo(out, applied.WakeTo(w), w.Replicas)
	case !schedule.On:
		return out
	}

	out.Conflict = hpa.Adjust(&schedule)
	out.Schedule = schedule
	if out.Now, err = schedule.At(now); err != nil {
		return invalid(out, w, err, now)
	}
	if !sleeps(w, now) {
		out.Now = out.Schedule.Unslept(now, out.Now)
	}
	out.Replicas = schedule.Replicas(out.Now.Asleep)
	out.Scale = w.Replicas != out.Replicas
	out.Record = workload.RecordOf(&schedule, out.Now)
	if out.Now.Asleep {
		out.State = outlook.Asleep
		fallAsleep(&out, w, hpa, now)
		return out
	}
	out.State = outlook.Awake
	if schedule.Daytime == night.DaytimeWakeOnly {
		justOptedIn := w.Record == nil && w.Replicas <= schedule.NightReplicas && (hpa == nil || !hpa.ToZero)
		out.Scale = w.Replicas < out.Replicas && (slept || justOptedIn)
	}
	return out
}

// sleeps tells whether a workload is recorded as asleep. Whose night is over and who has
// more than its count was awake since.
func sleeps(w *workload.Workload, now time.Time) bool {
	applied, slept := w.Record.Slept()
	over := !applied.Until.IsZero() && !applied.Until.After(now)
	return slept && (!over || w.Replicas <= applied.Replicas)
}

// fallAsleep tells in which order the night's count and its record are written, and what
// of it an autoscaler may change.
func fallAsleep(out *outlook.Decision, w *workload.Workload, hpa *workload.Autoscaler, now time.Time) {
	applied, _ := w.Record.Slept()
	recorded := sleeps(w, now)
	out.RecordFirst = out.Scale && (!recorded || out.Replicas > applied.Replicas)
	if hpa == nil || out.Replicas == 0 || w.Replicas == 0 {
		return
	}
	seen := recorded && applied.Replicas == out.Replicas && w.Record.Reason != workload.ReasonGoingToSleep
	switch {
	case seen:
		out.Scale, out.RecordFirst = false, false // it is the autoscaler's to change now
	case out.Scale:
		out.Record.Reason = workload.ReasonGoingToSleep
		out.RecordFirst = true
	}
}

// invalid leaves the replicas of a workload alone whose schedule cannot be acted on. One
// that sleeps is woken at the end of its night, by the record: nobody reads events then.
func invalid(out outlook.Decision, w *workload.Workload, err error, now time.Time) outlook.Decision {
	out.State, out.Err = outlook.Invalid, err
	applied, slept := w.Record.Slept()
	slept = slept && w.Replicas <= applied.Replicas
	if over := !applied.Until.IsZero() && !applied.Until.After(now); slept && over {
		out.Replicas = max(w.Replicas, applied.Expected)
		out.Scale = out.Replicas != w.Replicas
		slept = out.Scale // until it is woken
	}
	if slept && applied.Until.After(now) && (out.Now.Next.IsZero() || applied.Until.Before(out.Now.Next)) {
		out.Now.Next = applied.Until
	}
	out.Record = workload.InvalidRecord(err, applied, slept)
	return out
}

// letGo lets go of a workload that is not managed any more: one that sleeps is woken first.
func letGo(out outlook.Decision, replicas, have int32) outlook.Decision {
	out.State, out.Replicas, out.Scale = outlook.Released, replicas, replicas != have
	out.Record = workload.ReleasedRecord(replicas)
	return out
}
