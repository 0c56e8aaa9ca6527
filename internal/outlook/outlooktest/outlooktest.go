// Package outlooktest decides for tests of what shows decisions.
package outlooktest

import (
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// Decide is the part of the controller's decisions that its page and the plan show, for
// tests of these: what the schedule says, whatever the record does.
func Decide(w *workload.Workload, defaults night.Schedule, hpa *workload.Autoscaler, now time.Time) outlook.Decision {
	out := outlook.Decision{State: outlook.Unmanaged, Replicas: w.Replicas}
	if w.DeletionTimestamp != nil {
		return out
	}
	schedule, err := w.Schedule(defaults)
	if err != nil {
		out.State, out.Err = outlook.Invalid, err
		return out
	}
	if !schedule.On {
		if applied, slept := w.Record.Slept(); slept {
			out.State, out.Replicas = outlook.Released, applied.WakeTo(w)
			out.Scale = out.Replicas != w.Replicas
		}
		return out
	}
	out.Conflict, out.State = hpa.Adjust(&schedule), outlook.Awake
	out.Schedule = schedule
	switch out.Now, out.Err = schedule.At(now); {
	case out.Err != nil:
		out.State = outlook.Invalid
		return out
	case !w.Record.Asleep():
		out.Now = out.Schedule.Unslept(now, out.Now)
	}
	if out.Now.Asleep {
		out.State = outlook.Asleep
	}
	out.Replicas = schedule.Replicas(out.Now.Asleep)
	out.Scale = out.Replicas != w.Replicas
	if out.State == outlook.Awake && schedule.Daytime == night.DaytimeWakeOnly {
		out.Scale = w.Replicas == 0
	}
	return out
}
