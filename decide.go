package main

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// decision is what one look at a Deployment comes to. It is computed from the
// object, the flags and the clock alone.
type decision struct {
	// replicas is the count to write; scale tells whether to write it.
	replicas int32
	scale    bool
	// condition is how our condition should read, nil to leave it as it is.
	// Its times are set when it is written.
	condition *appsv1.DeploymentCondition
	// why says in words what the decision rests on, for events and logs.
	why string
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
func decide(d *appsv1.Deployment, defaults Schedule, now time.Time) decision {
	if d.DeletionTimestamp != nil {
		return decision{}
	}
	schedule, err := ParseSchedule(d.Annotations, defaults)
	var state State
	if err == nil && schedule.On {
		state, err = schedule.At(now)
	}
	replicas := ptr.Deref(d.Spec.Replicas, 1) // the API's default
	switch {
	case err != nil:
		return decision{condition: invalidCondition(err), next: state.Next}
	case !schedule.On:
		return release(d, replicas)
	}
	out := decision{
		replicas:  schedule.Replicas(state.Asleep),
		condition: scheduleCondition(&schedule, state),
		why:       explain(&schedule, state),
		next:      state.Next,
	}
	out.scale = replicas != out.replicas
	if !state.Asleep && schedule.Daytime == DaytimeWakeOnly {
		waking := isAsleep(d) || replicas == 0
		out.scale = waking && replicas < out.replicas
	}
	return out
}

// release lets go of a Deployment that is not managed any more: one that we put to
// sleep, and that still has the count that we gave it, is woken first.
func release(d *appsv1.Deployment, replicas int32) decision {
	if !isAsleep(d) {
		return decision{}
	}
	out := decision{replicas: replicas, why: "not managed any more"}
	if night, expected, ok := readRecord(d); ok && replicas == night {
		out.replicas = expected
		if n, err := ParseReplicas(d.Annotations[AnnotationExpected]); err == nil {
			out.replicas = n
		}
	}
	out.scale = out.replicas != replicas
	out.condition = releasedCondition(out.replicas)
	return out
}
