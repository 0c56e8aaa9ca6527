package night

import (
	"fmt"
	"time"
)

const (
	// horizon bounds the search for the next boundary. It is a leap year, so
	// that a window on one calendar date a year is always seen coming.
	horizon = 366 * 24 * time.Hour
)

// At tells whether the Deployment is asleep at now and when that changes. It
// fails while both overrides lie ahead: the error then stands until the first
// of them has passed, which is State.Next.
func (s *Schedule) At(now time.Time) (State, error) {
	awake, asleep := s.AwakeUntil.After(now), s.AsleepUntil.After(now)
	switch {
	case awake && asleep:
		next := s.AwakeUntil
		if s.AsleepUntil.Before(next) {
			next = s.AsleepUntil
		}
		return State{Next: next.In(s.Location)}, fmt.Errorf("%s %q and %s %q both lie ahead: remove one of them", AnnotationAwakeUntil,
			s.AwakeUntil.Format(time.RFC3339), AnnotationAsleepUntil, s.AsleepUntil.Format(time.RFC3339))
	case awake:
		return s.overriddenUntil(s.AwakeUntil, false, now), nil
	case asleep:
		return s.overriddenUntil(s.AsleepUntil, true, now), nil
	}
	night, next := s.night(now, now.Add(horizon))
	return State{Asleep: night, Next: next}, nil
}

// overriddenUntil is the state while an override holds: the answer changes when it
// ends, or with the window after that if the window agrees with it until then.
func (s *Schedule) overriddenUntil(end time.Time, asleep bool, now time.Time) State {
	limit := now.Add(horizon)
	night, next := s.night(end, limit)
	if night != asleep {
		next = end.In(s.Location)
	}
	if next.After(limit) {
		next = time.Time{}
	}
	return State{Asleep: asleep, Override: true, Next: next}
}

// night tells whether t lies in one of the window's nights, and the first
// later instant, not after limit, at which that changes (else zero).
func (s *Schedule) night(t, limit time.Time) (bool, time.Time) {
	end := s.nightEnd(t)
	if end.IsZero() {
		return false, s.nextNight(t, limit)
	}
	for { // nights that overlap or touch are one
		if end.After(limit) {
			return true, time.Time{}
		}
		later := s.nightEnd(end)
		if later.IsZero() {
			return true, end
		}
		end = later
	}
}

// nightEnd is the latest end of the nights that t lies in, zero if there is none.
func (s *Schedule) nightEnd(t time.Time) time.Time {
	today := DateOf(t, s.Location)
	// A night that holds t had not ended a wake delay ago, so it started on that
	// day or on the one before. Tomorrow counts while clocks that went back over
	// midnight repeat the end of today.
	first := today - 1
	if s.WakeDelay > 0 {
		first = DateOf(t.Add(-s.WakeDelay), s.Location) - 1
	}
	var latest time.Time
	for d := first; d <= today+1; d++ {
		if s.Except.Include(d) {
			continue
		}
		for i := range s.Window.Len() {
			item := s.Window.Item(i)
			if !item.Days.Include(d) {
				continue
			}
			start, end := item.on(d, s.Location)
			if !start.Before(end) || start.After(t) {
				continue
			}
			if end = end.Add(s.WakeDelay); end.After(t) && end.After(latest) {
				latest = end
			}
		}
	}
	return latest
}

// nextNight is the first start of a night after t and not after limit, zero if
// there is none. Dates before t's own cannot hold it: a later local time never
// means an earlier instant (see instant), so their starts are not after t.
func (s *Schedule) nextNight(t, limit time.Time) time.Time {
	last := DateOf(limit, s.Location) + 1
	for d := DateOf(t, s.Location); d <= last; d++ {
		if s.Except.Include(d) {
			continue
		}
		var earliest time.Time
		for i := range s.Window.Len() {
			item := s.Window.Item(i)
			if !item.Days.Include(d) {
				continue
			}
			start, end := item.on(d, s.Location)
			if start.After(t) && start.Before(end) && (earliest.IsZero() || start.Before(earliest)) {
				earliest = start
			}
		}
		if !earliest.IsZero() {
			if earliest.After(limit) {
				return time.Time{}
			}
			return earliest
		}
	}
	return time.Time{}
}
