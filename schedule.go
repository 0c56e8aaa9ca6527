package main

import (
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// decide is the table of what a workload's annotations and the clock ask for:
//
//	being deleted                                 nothing
//	not managed, was not asleep                   nothing
//	not managed any more, was asleep              back to the day's count if the night's is still there; Released
//	schedule invalid                              replicas untouched; Unknown
//	asleep                                        the night's count; True
//	awake, enforce                                the expected count; False
//	awake, wake-only                              at least the expected count if it was asleep or is at 0; False
//	  by an autoscaler that may go down to 0      at least the expected count if it was asleep; False
//
// An autoscaler that targets the workload (nil: none) makes its day wake-only. At 0
// replicas it stands aside; a night count above 0 is set on going to sleep, not below
// the autoscaler's minimum, and then left to it.
func decide(w *workload.Workload, defaults night.Schedule, hpa *workload.Autoscaler, now time.Time) outlook.Decision {
	out := outlook.Decision{State: outlook.Unmanaged, Replicas: w.Replicas}
	if w.DeletionTimestamp != nil {
		return out
	}
	applied, slept := w.Record.Slept()
	schedule, err := w.Schedule(defaults)
	switch {
	case err != nil:
		return invalid(out, err, applied, slept)
	case !schedule.On && slept:
		return letGo(out, applied.WakeTo(w), w.Replicas)
	case !schedule.On:
		return out
	}

	out.Conflict = hpa.Adjust(&schedule)
	out.Schedule = schedule
	if out.Now, err = schedule.At(now); err != nil {
		return invalid(out, err, applied, slept)
	}
	asleep := out.Now.Asleep
	out.State = outlook.Awake
	if asleep {
		out.State = outlook.Asleep
	}
	out.Replicas = schedule.Replicas(asleep)
	out.Record = workload.RecordOf(&schedule, out.Now)
	// Where an autoscaler may go down to 0 by itself, 0 in the day is its choice.
	zeroIsOurs := hpa == nil || !hpa.ToZero
	out.Scale = w.Replicas != out.Replicas
	switch {
	case !asleep && schedule.Daytime == night.DaytimeWakeOnly:
		out.Scale = w.Replicas < out.Replicas && (slept || w.Replicas == 0 && zeroIsOurs)
	case asleep && hpa != nil && out.Replicas > 0 && w.Replicas > 0 && slept && applied.Replicas == out.Replicas:
		out.Scale = false
	}
	// An enforced day needs no record, and 0 replicas are one where nobody else can have
	// chosen them. Else a night in which the record could not be written any more would
	// never end.
	if asleep && !slept && out.Scale && schedule.Daytime == night.DaytimeWakeOnly && (out.Replicas > 0 || !zeroIsOurs) {
		out.RecordFirst = true
		if hpa != nil { // which must see that the night's count has not been set yet
			out.Record.Message = workload.Applied{Replicas: w.Replicas, Expected: schedule.Expected, Until: out.Now.Next}.String()
		}
	}
	return out
}

// invalid leaves the replicas of a workload alone whose schedule cannot be acted on.
func invalid(out outlook.Decision, err error, applied workload.Applied, slept bool) outlook.Decision {
	out.State, out.Err = outlook.Invalid, err
	out.Record = workload.InvalidRecord(err, applied, slept)
	return out
}

// letGo lets go of a workload that is not managed any more: one that was put to sleep,
// and that still has the count that it was given, is woken first.
func letGo(out outlook.Decision, replicas, have int32) outlook.Decision {
	out.State, out.Replicas, out.Scale = outlook.Released, replicas, replicas != have
	out.Record = workload.ReleasedRecord(replicas)
	return out
}
