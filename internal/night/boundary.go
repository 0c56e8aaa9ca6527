package night

import (
	"fmt"
	"iter"
	"time"
)

const (
	// horizon bounds the search for the next boundary. It is a leap year, so
	// that a window on one calendar date a year is always seen coming.
	horizon = 366 * 24 * time.Hour
)

// At tells whether the workload is asleep at now and when that changes. It
// fails while both overrides lie ahead: the error then stands until the first
// of them has passed, which is State.Next if that is within 366 days. What it costs is bounded, whatever
// ParseSchedule has accepted.
func (s *Schedule) At(now time.Time) (State, error) {
	state, _, err := s.at(now)
	return state, err
}

// Unslept is what the schedule says at now to one that is not asleep yet. A wake delay
// prolongs a night that was slept, and never begins one: who is awake in a delay stays
// awake, to the next night. Who is put to sleep now has the delays of all others. State is
// what At says at now; the schedule remembers what made the difference.
func (s *Schedule) Unslept(now time.Time, state State) State {
	if !state.Asleep || s.WakeDelay == 0 {
		return state
	}
	unslept := *s
	unslept.AwakeAt = now
	if awake, err := unslept.At(now); err == nil && !awake.Asleep {
		*s = unslept
		return awake
	}
	return state
}

// cost is what an answer has taken.
type cost struct {
	turns int // of a local time into an instant, by a zone's rules
	looks int // at an item on a date
}

func (s *Schedule) at(now time.Time) (State, cost, error) {
	awake, asleep := s.AwakeUntil.After(now), s.AsleepUntil.After(now)
	switch {
	case awake && asleep:
		next := s.AwakeUntil
		if s.AsleepUntil.Before(next) {
			next = s.AsleepUntil
		}
		state := State{}
		if !next.After(now.Add(horizon)) {
			state.Next = next.In(s.Location)
		}
		return state, cost{}, fmt.Errorf("%s %q and %s %q both lie ahead: remove one of them", AnnotationAwakeUntil,
			s.AwakeUntil.Format(time.RFC3339), AnnotationAsleepUntil, s.AsleepUntil.Format(time.RFC3339))
	case awake:
		state, cost := s.overriddenUntil(s.AwakeUntil, false, now)
		return state, cost, nil
	case asleep:
		state, cost := s.overriddenUntil(s.AsleepUntil, true, now)
		return state, cost, nil
	}
	var room few
	w := s.walk(now, &room)
	state := w.state(now, now.Add(horizon))
	return state, w.cost(), nil
}

// overriddenUntil is the state while an override holds: the answer changes when it
// ends, or with the window after that if the window agrees with it until then.
func (s *Schedule) overriddenUntil(end time.Time, asleep bool, now time.Time) (State, cost) {
	limit := now.Add(horizon)
	state := State{Asleep: asleep, Override: true}
	if end.After(limit) {
		return state, cost{}
	}
	var room few
	w := s.walk(end, &room)
	after := w.state(end, limit)
	if state.Next = after.Next; after.Asleep != asleep {
		state.Next = end.In(s.Location)
	}
	return state, w.cost()
}

// States are the states from an instant on, each as At tells it: the first at from, the
// others at the boundary that is the Next of the one before, as long as that is not after
// to. The error belongs to the state, as that of At. The nights are gone through once, so
// that the cost grows with what is told, and with the time from from to to.
func (s *Schedule) States(from, to time.Time) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		at := from
		for s.AwakeUntil.After(at) || s.AsleepUntil.After(at) {
			state, err := s.At(at)
			if !yield(state, err) || state.Next.IsZero() || state.Next.After(to) {
				return
			}
			at = state.Next
		}
		var room few
		w := s.walk(at, &room)
		for {
			state := w.state(at, at.Add(horizon))
			if !yield(state, nil) || state.Next.IsZero() || state.Next.After(to) {
				return
			}
			at = state.Next
		}
	}
}
