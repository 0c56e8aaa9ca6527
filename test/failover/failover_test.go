package failover

import (
	"os"
	"testing"
	"time"
)

// slack is what a busy machine may add to what the timing of the Lease allows.
const slack = 6 * time.Second

func run(t *testing.T, scenarios ...Scenario) (Options, map[string]Outcome) {
	t.Parallel() // what takes time is waiting
	o := Options{
		Program: os.Getenv("SCHEDULE_NIGHT"), Deploy: "../../deploy",
		LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
		Outage: 10 * time.Second, Runs: 1, Log: os.Stderr,
	}
	if o.Program == "" {
		t.Fatal("SCHEDULE_NIGHT must name the program to test; make test-e2e builds it and does so")
	}
	outcomes, err := Run(t.Context(), o, scenarios...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", Table(o, outcomes))
	byName := map[string]Outcome{}
	for _, runs := range outcomes {
		outcome := runs[0]
		byName[outcome.Scenario] = outcome
		if outcome.Stale != 0 {
			t.Errorf("%s: %d writes without the Lease", outcome.Scenario, outcome.Stale)
		}
		if outcome.Events != deployments {
			t.Errorf("%s: %d events arrived, want %d", outcome.Scenario, outcome.Events, deployments)
		}
	}
	return o, byName
}

// TestReplicas: a leader that is gone costs its Lease and one try, one that is told to
// stop a try alone; one that comes back does not write.
func TestReplicas(t *testing.T) {
	o, outcomes := run(t, Replicas...)
	for _, s := range Replicas {
		outcome := outcomes[s.name]
		least, most := o.LeaseDuration-2*o.RetryPeriod, o.LeaseDuration+o.RetryPeriod+slack
		if s.exit == 0 {
			least, most = 0, 3*time.Second+slack/2
		}
		if outcome.Takeover < least || outcome.Takeover > most || outcome.Right > most+slack {
			t.Errorf("%s: taken over after %v, all right after %v, want %v to %v", s.name, outcome.Takeover, outcome.Right, least, most)
		}
	}
	// All that it had to do was due when it came back: the guard lets none of it through.
	// A renewal may have been on its way.
	if outcome := outcomes[frozen]; outcome.Guarded == 0 || outcome.Refused > 1 {
		t.Errorf("%s: its guard refused %d writes, the API server %d", frozen, outcome.Guarded, outcome.Refused)
	}
}

// TestControlPlane: what fell due while the control plane was away is done when it is
// back, by the replica that has outlived it.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	for _, s := range ControlPlane {
		t.Run(s.name, func(t *testing.T) {
			o, outcomes := run(t, s)
			if due, most := outcomes[s.name].Due, o.LeaseDuration+o.RetryPeriod+slack; due > most {
				t.Errorf("all right %v after its return, want %v", due, most)
			}
		})
	}
}
