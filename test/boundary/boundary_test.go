package boundary

import (
	"os"
	"testing"
	"time"
)

// TestBoundary goes through one night with 2,000 Deployments: nothing changes before its
// boundary, everything after it, by one scale and one status write each; no event is
// lost; and when nothing is due, only the Lease is renewed.
func TestBoundary(t *testing.T) {
	program := os.Getenv("SCHEDULE_NIGHT")
	if program == "" {
		t.Fatal("SCHEDULE_NIGHT must name the program to test; make test-e2e builds it and does so")
	}
	r, err := Run(t.Context(), Options{Program: program, Deploy: "../../deploy", N: 2000, QPS: -1, Workers: 16, Idle: 10 * time.Second, Soon: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Table())
	for name, n := range map[string]Night{"sleep": r.Sleep, "wake": r.Wake} {
		if n.First < 0 {
			t.Errorf("%s: the first change came %v before the boundary", name, -n.First)
		}
		if n.Scales != r.N || n.Conflicts != 0 || n.Requests["patch deployments/status"] != r.N {
			t.Errorf("%s: %d scale writes, %d conflicts, requests %v", name, n.Scales, n.Conflicts, n.Requests)
		}
		limit := 3 * r.Ceiling() // a machine may be busy; the benchmark has the real figure
		if name == "sleep" {
			limit *= 2 // two writes, of which the ceiling is one: it is recorded before it is done
		}
		if n.Last > limit {
			t.Errorf("%s: the last change came after %v, the ceiling is %v", name, n.Last, r.Ceiling())
		}
	}
	if r.Events != 2*r.N {
		t.Errorf("%d events arrived, want %d", r.Events, 2*r.N)
	}
	const memory = 48 << 20 // bytes; docs/benchmarks.md has what it really takes
	if r.PeakRSS == 0 || r.PeakRSS > memory {
		t.Errorf("peak RSS %d bytes, want at most %d", r.PeakRSS, memory)
	}
	if r.WrongAfter != 0 || r.Conditions != r.N {
		t.Errorf("%d wrong counts and %d right conditions at the end", r.WrongAfter, r.Conditions)
	}
	for what, n := range r.IdleRequests {
		if what != "update leases" && what != "get leases" && what != "watch deployments" && what != "watch horizontalpodautoscalers" {
			t.Errorf("%d idle requests: %s", n, what)
		}
	}
}
