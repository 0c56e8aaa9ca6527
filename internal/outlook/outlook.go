package outlook

import (
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/workload"
)

// OverdueAfter is how long a count may be wrong before the workload is overdue.
const OverdueAfter = time.Minute

// Managed is a workload that something is to be done about at one instant.
type Managed struct {
	*workload.Workload // of the cache: never to be written to
	Due                Decision
	Overdue            bool // another count has been due since OverdueAfter ago or longer
}

// Totals sum up the managed workloads at one instant.
type Totals struct {
	Asleep        int     `json:"asleep"`
	Awake         int     `json:"awake"`
	Invalid       int     `json:"invalid"`
	Released      int     `json:"released"`
	Overdue       int     `json:"overdue"`
	SavedReplicas float64 `json:"savedReplicas"`
	SavedCores    float64 `json:"savedCPUCores"`
	SavedBytes    float64 `json:"savedMemoryBytes"`

	Next time.Time `json:"-"` // zero if nothing will change
}

// Add takes a workload in.
func (t *Totals) Add(m *Managed) {
	if next := m.Due.Now.Next; !next.IsZero() && (t.Next.IsZero() || next.Before(t.Next)) {
		t.Next = next
	}
	switch m.Due.State {
	case Invalid:
		t.Invalid++
	case Asleep:
		t.Asleep++
		replicas := float64(m.Due.Schedule.Expected) - float64(m.Replicas)
		requests := requestsOf(m.Workload)
		t.SavedReplicas += replicas
		t.SavedCores += replicas * requests.Cores
		t.SavedBytes += replicas * requests.Gibibytes * (1 << 30)
	case Released:
		t.Released++
	default:
		t.Awake++
	}
	if m.Overdue {
		t.Overdue++
	}
}

func requestsOf(w *workload.Workload) workload.Requests {
	if w.Requests == nil {
		return workload.Requests{}
	}
	return *w.Requests
}

// Row is what the plan says about one workload. Its JSON form is a contract: all keys
// are always there, empty or 0 where there is nothing to say.
type Row struct {
	Namespace     string       `json:"namespace"`
	Name          string       `json:"name"`
	Timezone      string       `json:"timezone"`
	State         State        `json:"state"`
	Replicas      int32        `json:"replicas"`
	Expected      int32        `json:"expected"`
	NightReplicas int32        `json:"nightReplicas"`
	Error         string       `json:"error"`
	Transitions   []Transition `json:"transitions"`

	Schedule *night.Schedule `json:"-"` // nil if there is none that can be read
	Next     time.Time       `json:"-"` // zero if nothing will change
	Saved    Savings         `json:"-"`
}

// Transition is a change of state, with the count that goes with it.
type Transition struct {
	At       time.Time `json:"at"`
	To       State     `json:"to"`
	Replicas int32     `json:"replicas"`
}

// Savings are hours of what does not run.
type Savings struct{ Replicas, Cores, Gibibytes float64 }

// NewRow follows a workload from the instant of the decision until to.
func NewRow(w *workload.Workload, d *Decision, from, to time.Time) Row {
	row := Row{Namespace: w.Namespace, Name: w.Name, State: d.State, Replicas: w.Replicas, Next: d.Now.Next, Transitions: []Transition{}}
	row.Expected, _ = d.Expected()
	if d.Err != nil {
		row.Error = d.Err.Error()
	}
	if !d.Schedule.On {
		return row
	}
	schedule := d.Schedule
	row.Schedule = &schedule
	row.Timezone, row.NightReplicas = schedule.Location.String(), schedule.NightReplicas

	var asleep time.Duration
	for i, s := range Stretches(&schedule, from, to) {
		if i > 0 {
			row.Transitions = append(row.Transitions, Transition{s.From.UTC(), s.State, schedule.Replicas(s.State == Asleep)})
		}
		if s.State == Asleep {
			asleep += s.To.Sub(s.From)
		}
	}
	requests := requestsOf(w)
	hours := asleep.Hours() * (float64(schedule.Expected) - float64(schedule.NightReplicas))
	row.Saved = Savings{hours, hours * requests.Cores, hours * requests.Gibibytes}
	return row
}

// Stretch is a time through which the state is the same.
type Stretch struct {
	State    State
	From, To time.Time
}

// Stretches follows a schedule through [from, to]. A change at to itself is a last
// stretch of no length.
func Stretches(s *night.Schedule, from, to time.Time) []Stretch {
	var list []Stretch
	for state, err := range s.States(from, to) {
		next := Stretch{Awake, from, to}
		switch {
		case err != nil:
			next.State = Invalid
		case state.Asleep:
			next.State = Asleep
		}
		if !state.Next.IsZero() && !state.Next.After(to) {
			next.To = state.Next
		}
		list = append(list, next)
		from = next.To
	}
	return list
}
