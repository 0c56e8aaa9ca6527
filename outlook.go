package main

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// totals sum up the managed Deployments at one instant.
type totals struct {
	Asleep        int     `json:"asleep"`
	Awake         int     `json:"awake"`
	Invalid       int     `json:"invalid"`
	Overdue       int     `json:"overdue"`
	SavedReplicas float64 `json:"savedReplicas"`
	SavedCores    float64 `json:"savedCPUCores"`
	SavedBytes    float64 `json:"savedMemoryBytes"`

	next time.Time // zero if nothing will change
}

// managed is a Deployment that has opted in, at one instant: what it has, and what is
// asked of it.
type managed struct {
	*appsv1.Deployment // of the cache: never to be written to
	hpa                *autoscaler
	state              string // planAsleep, planAwake or planInvalid
	expected           int32
	want               int32 // the count to be set, where due says so
	due, overdue       bool
	override           string    // awake-until or asleep-until, where that decides
	next               time.Time // when the answer changes; zero for never
}

func (t *totals) add(m *managed) {
	if !m.next.IsZero() && (t.next.IsZero() || m.next.Before(t.next)) {
		t.next = m.next
	}
	switch m.state {
	case planInvalid:
		t.Invalid++
		return
	case planAsleep:
		t.Asleep++
		replicas := float64(m.expected) - float64(ptr.Deref(m.Spec.Replicas, 1))
		cores, gibibytes := requests(&m.Spec.Template.Spec)
		t.SavedReplicas += replicas
		t.SavedCores += replicas * cores
		t.SavedBytes += replicas * gibibytes * (1 << 30)
	default:
		t.Awake++
	}
	if m.overdue {
		t.Overdue++
	}
}

const (
	planAsleep = "asleep"
)

const (
	planAwake = "awake"
)

const (
	planInvalid = "invalid"
)

const (
	planUnmanaged = "unmanaged"
)

// planRow is what the plan says about one Deployment. Its JSON form is a contract:
// all keys are always there, empty or 0 where there is nothing to say.
type planRow struct {
	Namespace     string           `json:"namespace"`
	Name          string           `json:"name"`
	Timezone      string           `json:"timezone"`
	State         string           `json:"state"`
	Replicas      int32            `json:"replicas"`
	Expected      int32            `json:"expected"`
	NightReplicas int32            `json:"nightReplicas"`
	Error         string           `json:"error"`
	Transitions   []planTransition `json:"transitions"`

	schedule *night.Schedule // nil if there is none that can be read
	next     time.Time       // as State.Next
	saved    savings
}

// planTransition is a change of state, with the count that goes with it.
type planTransition struct {
	At       time.Time `json:"at"`
	To       string    `json:"to"`
	Replicas int32     `json:"replicas"`
}

// savings are hours of what does not run.
type savings struct{ replicas, cores, gibibytes float64 }

func newPlanRow(d *appsv1.Deployment, defaults night.Schedule, hpa *autoscaler, from, to time.Time) planRow {
	row := planRow{Namespace: d.Namespace, Name: d.Name, State: planUnmanaged, Replicas: ptr.Deref(d.Spec.Replicas, 1), Transitions: []planTransition{}}
	schedule, err := scheduleOf(d, defaults)
	switch {
	case d.DeletionTimestamp != nil:
		return row
	case err != nil:
		row.State, row.Error = planInvalid, err.Error()
		return row
	case !schedule.On:
		return row
	}
	hpa.adjust(&schedule)
	state, err := schedule.At(from)
	if err != nil {
		row.Error = err.Error()
	}
	row.schedule, row.next = &schedule, state.Next
	row.Timezone, row.Expected, row.NightReplicas = schedule.Location.String(), schedule.Expected, schedule.NightReplicas

	var asleep time.Duration
	for i, s := range stretches(&schedule, from, to) {
		if i == 0 {
			row.State = s.state
		} else {
			row.Transitions = append(row.Transitions, planTransition{s.from.UTC(), s.state, schedule.Replicas(s.state == planAsleep)})
		}
		if s.state == planAsleep {
			asleep += s.to.Sub(s.from)
		}
	}
	cores, gibibytes := requests(&d.Spec.Template.Spec)
	hours := asleep.Hours() * (float64(schedule.Expected) - float64(schedule.NightReplicas))
	row.saved = savings{hours, hours * cores, hours * gibibytes}
	return row
}

// stretch is a time through which the state is the same.
type stretch struct {
	state    string
	from, to time.Time
}

// stretches follows a schedule through [from, to]. A change at to itself is a last
// stretch of no length.
func stretches(s *night.Schedule, from, to time.Time) []stretch {
	var list []stretch
	for {
		state, err := s.At(from)
		next := stretch{planAwake, from, to}
		switch {
		case err != nil:
			next.state = planInvalid
		case state.Asleep:
			next.state = planAsleep
		}
		if state.Next.IsZero() || state.Next.After(to) {
			return append(list, next)
		}
		next.to = state.Next
		list = append(list, next)
		from = state.Next
	}
}
