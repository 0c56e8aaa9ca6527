package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"schedule-night/test/cluster"
)

// These tests come last, as this file's name does: when the API server has been away, the
// watches of the scheduler and the controller manager may take a minute to come back.

// TestUnreachable: no API server, one clear line, exit 1.
func TestUnreachable(t *testing.T) {
	c := launch(t, "--kubeconfig", repoFile("test/e2e/testdata/unreachable.kubeconfig"))
	if code := c.wait(15 * time.Second); code != 1 {
		t.Errorf("exited %d, want 1", code)
	}
	if out := c.log(); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "error: cannot reach the API server: ") {
		t.Errorf("said %q", out)
	}
}

// TestSecondSignal: one signal waits for what is in flight; another does not.
func TestSecondSignal(t *testing.T) {
	c := makeTenant(t).start(t) // nobody has to wait for the Lease that it leaves behind
	c.waitLeading()
	if err := plane.SignalPart(cluster.APIServer, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.SignalPart(cluster.APIServer, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	c.signal(syscall.SIGTERM)
	c.eventually("it has begun to stop", func() bool { return strings.Contains(c.log(), "All workers stopped") })
	select {
	case <-c.done:
		t.Fatal("it released a Lease without an API server")
	default:
	}
	again := time.Now()
	c.signal(syscall.SIGTERM)
	c.wait(5 * time.Second)
	if took := time.Since(again); took > time.Second {
		t.Errorf("ended %v after the second signal", took)
	}
}

// TestAPIServerKilled: what fell due while the API server was away is done when it is
// back, by the same process: it is back before the Lease is lost.
func TestAPIServerKilled(t *testing.T) {
	ns := makeNamespace(t)
	start(t).waitLeading()
	until := time.Now().Truncate(time.Second).Add(4 * time.Second)
	makeDeployment(t, ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00", "awake-until="+until.Format(time.RFC3339))
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
	plane.KillPart(cluster.APIServer)
	<-time.After(time.Until(until.Add(time.Second)))
	if err := plane.StartPart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	waitReplicas(t, ns, "web", 0)
	waitCondition(t, ns, "web", corev1.ConditionTrue, "NightWindow")
}
