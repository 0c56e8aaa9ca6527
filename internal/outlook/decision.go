// Package outlook tells what is due for a workload now and what will happen to it: the
// types of a decision, of a row of the plan, and of the totals over all workloads.
package outlook

import (
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/workload"
)

// State is what a workload is by its schedule.
type State string

// States of a workload.
const (
	Asleep    State = "asleep"
	Awake     State = "awake"
	Invalid   State = "invalid"   // the schedule cannot be acted on
	Released  State = "released"  // opted out while asleep, and not recorded as awake yet
	Unmanaged State = "unmanaged" // nothing is ever done about it
)

// Decision is what one look at a workload comes to. It is computed from the object, the
// defaults, the autoscaler and the clock alone.
type Decision struct {
	State State
	// Replicas is the count that is due; Scale tells whether to write it.
	Replicas int32
	Scale    bool
	// Record is how the record should read; without a reason, it is left as it is. Its
	// time is set when it is written.
	Record workload.Record
	// RecordFirst tells that the record must be written before the count: going to sleep is
	// recorded before it is done.
	RecordFirst bool
	// Schedule is what the decision rests on, fitted to the autoscaler. It is On where it
	// could be read.
	Schedule night.Schedule
	// Now is what the schedule says at the instant of the decision. Its Next is when to
	// look again; zero if time alone changes nothing.
	Now night.State
	// Err is why the schedule cannot be acted on.
	Err error
	// Conflict says what an autoscaler does not go together with, "" for nothing.
	Conflict string
}

// Decider decides about a workload at an instant. The autoscaler is nil if there is none.
type Decider func(w *workload.Workload, defaults night.Schedule, hpa *workload.Autoscaler, now time.Time) Decision

// WritesRecord tells whether the workload's record should read otherwise than it does.
func (d *Decision) WritesRecord(w *workload.Workload) bool {
	return d.Record.Reason != "" && !w.Record.Says(d.Record)
}

// SameCount tells whether both decisions ask for the same count.
func (d *Decision) SameCount(other *Decision) bool {
	return d.Scale == other.Scale && d.Replicas == other.Replicas
}

// Expected is the count of the day, where Known tells that there is one.
func (d *Decision) Expected() (replicas int32, known bool) {
	switch {
	case d.State == Released:
		return d.Replicas, true
	case d.Schedule.On:
		return d.Schedule.Expected, true
	}
	return 0, false
}

// Override names the annotation that decides in place of the window, "" if none does.
func (d *Decision) Override() string {
	switch {
	case d.Err != nil || !d.Now.Override:
		return ""
	case d.Now.Asleep:
		return "asleep-until"
	}
	return "awake-until"
}

// Why says in words what the decision rests on, and until when.
func (d *Decision) Why() string {
	s := &d.Schedule
	var why string
	switch {
	case d.Err != nil:
		return d.Err.Error()
	case !s.On:
		return "not managed any more"
	case d.Now.Override && d.Now.Asleep:
		why = "asleep until " + s.AsleepUntil.In(s.Location).Format(time.RFC3339)
	case d.Now.Override:
		why = "awake until " + s.AwakeUntil.In(s.Location).Format(time.RFC3339)
	case d.Now.Asleep:
		why = "asleep in window " + night.Quote(s.Window.String()) + " " + s.Location.String()
	default:
		why = "awake outside window " + night.Quote(s.Window.String()) + " " + s.Location.String()
	}
	return why + ", next change " + workload.FormatBoundary(d.Now.Next)
}
