package main

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// decision is what one look at a Deployment comes to. It is computed from the
// object, the flags and the clock alone.
type decision struct {
	// replicas is the count to write; scale tells whether to write it.
	replicas int32
	scale    bool
	// condition is how our condition should read; without a type, it is left as it
	// is. Its times are set when it is written.
	condition appsv1.DeploymentCondition
	// asleep and expected are what the schedule says, where there is one.
	asleep   bool
	expected int32
	// recordFirst tells that the condition must be written before the count: in the
	// morning nothing else will tell that the count is the night's.
	recordFirst bool
	// conflict says what an autoscaler does not go together with, "" for nothing.
	conflict string
	// next is when to look again; zero if time alone changes nothing.
	next time.Time
}

// decide is the table of what to do about a Deployment:
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
// An autoscaler that targets the Deployment (nil: none) makes its day wake-only. At
// 0 replicas it stands aside; a night count above 0 is set on going to sleep, not
// below the autoscaler's minimum, and then left to it.
func decide(d *appsv1.Deployment, defaults night.Schedule, hpa *autoscaler, now time.Time) decision {
	if d.DeletionTimestamp != nil {
		return decision{}
	}
	schedule, err := scheduleOf(d, defaults)
	var state night.State
	if err == nil && schedule.On {
		state, err = schedule.At(now)
	}
	replicas := ptr.Deref(d.Spec.Replicas, 1) // the API's default
	record, slept := sleepRecord(d)
	switch {
	case err != nil:
		return decision{condition: invalidCondition(err, record, slept), next: state.Next}
	case !schedule.On && slept:
		return release(d, replicas, record)
	case !schedule.On:
		return decision{}
	}

	conflict := hpa.adjust(&schedule)
	out := decision{
		replicas:  schedule.Replicas(state.Asleep),
		asleep:    state.Asleep,
		expected:  schedule.Expected,
		condition: scheduleCondition(&schedule, state),
		conflict:  conflict,
		next:      state.Next,
	}
	out.scale = replicas != out.replicas
	switch {
	case !state.Asleep && schedule.Daytime == night.DaytimeWakeOnly:
		// Where an autoscaler may go down to 0 by itself, 0 in the day is its choice.
		atZero := replicas == 0 && (hpa == nil || !hpa.toZero)
		out.scale = (slept || atZero) && replicas < out.replicas
	case state.Asleep && hpa != nil && out.replicas > 0 && replicas > 0 && slept && record.replicas == out.replicas:
		out.scale = false
	}
	// An enforced day needs no record, and 0 replicas are one where nobody else can have
	// chosen them. Else a night in which the record could not be written any more would
	// never end.
	tells := out.replicas == 0 && (hpa == nil || !hpa.toZero)
	if state.Asleep && !slept && out.scale && schedule.Daytime == night.DaytimeWakeOnly && !tells {
		out.recordFirst = true
		if hpa != nil { // which must see that the night's count has not been set yet
			out.condition.Message = appliedRecord{replicas, schedule.Expected, state.Next}.String()
		}
	}
	return out
}

// writesCondition tells whether our condition should read otherwise than it does.
func (d *decision) writesCondition(on *appsv1.Deployment) bool {
	if d.condition.Type == "" {
		return false
	}
	have := asleepCondition(on)
	return have == nil || have.Status != d.condition.Status || have.Reason != d.condition.Reason || have.Message != d.condition.Message
}

// sameCount tells whether both decisions ask for the same count.
func (d decision) sameCount(other decision) bool {
	return d.scale == other.scale && d.replicas == other.replicas
}

// release lets go of a Deployment that is not managed any more: one that we put to
// sleep, and that still has the count that we gave it, is woken first.
func release(d *appsv1.Deployment, replicas int32, record appliedRecord) decision {
	out := decision{replicas: record.wakeTo(replicas, d.Annotations)}
	out.scale = out.replicas != replicas
	out.condition = releasedCondition(out.replicas)
	return out
}

// explain says in words what the decision about a Deployment rests on, and until when.
func explain(d *appsv1.Deployment, defaults night.Schedule, now time.Time) string {
	s, err := scheduleOf(d, defaults)
	if err != nil || !s.On {
		return "not managed any more"
	}
	state, err := s.At(now)
	if err != nil {
		return err.Error()
	}
	var why string
	switch {
	case state.Override && state.Asleep:
		why = "asleep until " + s.AsleepUntil.In(s.Location).Format(time.RFC3339)
	case state.Override:
		why = "awake until " + s.AwakeUntil.In(s.Location).Format(time.RFC3339)
	case state.Asleep:
		why = "asleep in window " + strconv.Quote(s.Window.String()) + " " + s.Location.String()
	default:
		why = "awake outside window " + strconv.Quote(s.Window.String()) + " " + s.Location.String()
	}
	return why + ", next change " + formatBoundary(state.Next)
}
