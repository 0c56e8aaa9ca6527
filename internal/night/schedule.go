// Package night is the language of schedules: what annotations say, over defaults, and
// what that means at an instant.
package night

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The annotations that a user writes on a Deployment. AnnotationOn opts in;
// the others describe its nights and fall back to the controller's flags,
// except AnnotationExpected, which has no default.
const (
	Prefix = "schedule-night.svc/"

	AnnotationOn            = Prefix + "on"             // strconv.ParseBool
	AnnotationExpected      = Prefix + "expected"       // replicas in the day
	AnnotationWindow        = Prefix + "window"         // see ParseWindow
	AnnotationTimezone      = Prefix + "timezone"       // IANA name
	AnnotationNightReplicas = Prefix + "night-replicas" // replicas in the window
	AnnotationExcept        = Prefix + "except"         // see ParseDays
	AnnotationAwakeUntil    = Prefix + "awake-until"    // RFC 3339
	AnnotationAsleepUntil   = Prefix + "asleep-until"   // RFC 3339
	AnnotationDaytime       = Prefix + "daytime"        // a Daytime
	AnnotationWakeDelay     = Prefix + "wake-delay"     // Go duration
)

// AnnotationNames are all that the controller reads.
var AnnotationNames = [...]string{
	AnnotationOn, AnnotationExpected, AnnotationWindow, AnnotationTimezone, AnnotationNightReplicas,
	AnnotationExcept, AnnotationAwakeUntil, AnnotationAsleepUntil, AnnotationDaytime, AnnotationWakeDelay,
}

// Daytime says what the controller does about replicas while a Deployment is
// awake.
type Daytime string

const (
	// DaytimeDefault leaves the choice to the cluster: wake-only where an
	// autoscaler owns the count, else enforce.
	DaytimeDefault Daytime = ""
	// DaytimeEnforce holds the expected count all day.
	DaytimeEnforce Daytime = "enforce"
	// DaytimeWakeOnly sets the expected count once on waking.
	DaytimeWakeOnly Daytime = "wake-only"
)

const (
	// MaxWakeDelay bounds how far back At has to look for a night that is
	// still being slept out; a longer delay is a longer window.
	MaxWakeDelay = 24 * time.Hour
	// MaxText bounds, in bytes, the value of an annotation. Users come nowhere near it;
	// without it one could keep a worker busy for seconds, and fill its memory.
	MaxText = 4096
	// maxDigits are those of the largest number of replicas.
	maxDigits = 10
)

var errTooLong = fmt.Errorf("longer than %d bytes", MaxText)

// Schedule is what a Deployment's annotations ask for. The zero value is not
// usable: Location and Window must be set. A Schedule made of the controller's
// flags is the default that ParseSchedule starts from.
type Schedule struct {
	On            bool
	Expected      int32 // replicas in the day
	NightReplicas int32 // replicas in the window
	Window        Window
	Location      *time.Location // of Window and Except
	Except        Days           // nights that start on these days do not happen
	AwakeUntil    time.Time      // zero: no override
	AsleepUntil   time.Time      // zero: no override
	Daytime       Daytime
	WakeDelay     time.Duration // added to the end of each night
	WakeStagger   time.Duration // over which the wake-ups of all Deployments are spread; a flag only
	// AwakeAt is an instant at which the Deployment was awake, whatever the window says: the
	// nights that had ended by then have no delay. See Unslept.
	AwakeAt time.Time
}

// State is what a Schedule says about one instant.
type State struct {
	Asleep bool
	// Override is set while awake-until or asleep-until decides, not the window.
	Override bool
	// Next is the first later instant at which Asleep changes, in the
	// Schedule's Location; zero if there is none within 366 days.
	Next time.Time
}

// Replicas is the count that the schedule asks for in the given state.
func (s *Schedule) Replicas(asleep bool) int32 {
	if asleep {
		return s.NightReplicas
	}
	return s.Expected
}

// ParseSchedule reads a Deployment's annotations; what they leave out comes
// from defaults. Without AnnotationOn, or with it false, the result is not On
// and nothing else is looked at. The error names the annotation, its value and
// what would be right; the Schedule is then not to be acted on.
func ParseSchedule(annotations map[string]string, defaults Schedule) (Schedule, error) {
	s := defaults
	s.On = false
	value, ok := annotations[AnnotationOn]
	if !ok {
		return s, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return s, annotationError(AnnotationOn, value, errors.New("want true or false"))
	}
	if !on {
		return s, nil
	}
	s.On = true
	for _, name := range AnnotationNames {
		if value := annotations[name]; len(value) > MaxText {
			return s, annotationError(name, value, errTooLong)
		}
	}

	value, ok = annotations[AnnotationExpected]
	if !ok {
		return s, fmt.Errorf(`%s is missing: set it to the replicas wanted in the day, e.g. "3"`, AnnotationExpected)
	}
	if s.Expected, err = ParseReplicas(value); err != nil {
		return s, annotationError(AnnotationExpected, value, err)
	}
	if value, ok = annotations[AnnotationWindow]; ok {
		if s.Window, err = ParseWindow(value); err != nil {
			return s, annotationError(AnnotationWindow, value, err)
		}
	}
	if value, ok = annotations[AnnotationTimezone]; ok {
		if s.Location, err = ParseLocation(value); err != nil {
			s.Location = defaults.Location
			return s, annotationError(AnnotationTimezone, value, err)
		}
	}
	if value, ok = annotations[AnnotationNightReplicas]; ok {
		if s.NightReplicas, err = ParseReplicas(value); err != nil {
			return s, annotationError(AnnotationNightReplicas, value, err)
		}
	}
	if value, ok = annotations[AnnotationExcept]; ok {
		if s.Except, err = ParseDays(value); err != nil {
			return s, annotationError(AnnotationExcept, value, err)
		}
	}
	if value, ok = annotations[AnnotationAwakeUntil]; ok {
		if s.AwakeUntil, err = ParseInstant(value); err != nil {
			return s, annotationError(AnnotationAwakeUntil, value, err)
		}
	}
	if value, ok = annotations[AnnotationAsleepUntil]; ok {
		if s.AsleepUntil, err = ParseInstant(value); err != nil {
			return s, annotationError(AnnotationAsleepUntil, value, err)
		}
	}
	if value, ok = annotations[AnnotationDaytime]; ok {
		s.Daytime = Daytime(value)
		if s.Daytime != DaytimeEnforce && s.Daytime != DaytimeWakeOnly {
			return s, annotationError(AnnotationDaytime, value, fmt.Errorf("want %s or %s", DaytimeEnforce, DaytimeWakeOnly))
		}
	}
	if value, ok = annotations[AnnotationWakeDelay]; ok {
		if s.WakeDelay, err = time.ParseDuration(value); err != nil || s.WakeDelay < 0 || s.WakeDelay > MaxWakeDelay {
			return s, annotationError(AnnotationWakeDelay, value, errors.New("want a duration from 0s to 24h, e.g. 90s, 10m or 1h30m"))
		}
	}
	return s, nil
}

func annotationError(name, value string, err error) error {
	return fmt.Errorf("%s %s: %w", name, Quote(value), err)
}

// ParseReplicas reads a number of replicas: decimal digits, 0 to 2147483647,
// the range of spec.replicas, and no more digits than that has.
func ParseReplicas(text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || len(text) > maxDigits {
		return 0, errors.New("want replicas as decimal digits alone, 0 to 2147483647")
	}
	return int32(n), nil
}

// ParseInstant reads an RFC 3339 time. Of what time.Parse takes beyond that
// standard, a comma for the decimal point and a one-digit hour are refused here.
func ParseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, errors.New("want an RFC 3339 time with its offset, e.g. 2026-11-30T02:00:00+01:00 or 2026-11-30T01:00:00Z")
	}
	return t, nil
}

// For is the schedule of the object of that name in that namespace. Its own part of
// WakeStagger is in its WakeDelay, so that every boundary is the true one. The error is
// that of ParseSchedule.
func For(namespace, name string, annotations map[string]string, defaults Schedule) (Schedule, error) {
	s, err := ParseSchedule(annotations, defaults)
	if s.WakeStagger > 0 {
		s.WakeDelay += staggerOf(namespace+"/"+name, s.WakeStagger)
	}
	return s, err
}

// staggerOf spreads keys evenly over [0, stagger), each at the same place each morning.
func staggerOf(key string, stagger time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(key)) // the first bits of simpler hashes hardly differ for like names
	fraction := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	return time.Duration(fraction * float64(stagger)).Truncate(time.Millisecond)
}
