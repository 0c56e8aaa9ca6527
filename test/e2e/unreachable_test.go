package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"schedule-night/test/cluster"
)

// These tests come last, as this file's name does: when the API server has been away, the
// watches of the scheduler and the controller manager may take a minute to come back.

// TestUnreachable: without an API server it waits, says so once, and stops when it is told.
func TestUnreachable(t *testing.T) {
	c := launch(t, "--kubeconfig", repoFile("test/e2e/testdata/unreachable.kubeconfig"))
	c.eventually("it waits", func() bool { return strings.Contains(c.log(), "Waiting for the API server") })
	<-time.After(3 * time.Second)
	if code, body := c.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	if code, body := c.get("/readyz"); code != http.StatusInternalServerError || !strings.HasPrefix(body, "api-server: waiting for the API server: cannot reach the API server: ") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := c.get("/"); code != http.StatusServiceUnavailable {
		t.Errorf("/: %d %s", code, body)
	}
	if code, _ := c.get("/metrics"); code != http.StatusOK {
		t.Errorf("/metrics: %d", code)
	}
	told := time.Now()
	if code := c.terminate(); code != 0 || time.Since(told) > time.Second {
		t.Errorf("exited %d after %v", code, time.Since(told))
	}
	if n := strings.Count(c.log(), "Waiting for the API server"); n != 1 {
		t.Errorf("said so %d times:\n%s", n, c.log())
	}
}

// TestUnauthorized: credentials that nobody knows will not get better: one clear line, exit 1.
func TestUnauthorized(t *testing.T) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token, user.TokenFile = "stale", ""
	}
	path := filepath.Join(t.TempDir(), "stale.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	c := launch(t, "--kubeconfig", path)
	if code := c.wait(15 * time.Second); code != 1 {
		t.Errorf("exited %d, want 1", code)
	}
	if !strings.Contains(c.log(), "error: the API server does not accept our credentials: ") {
		t.Errorf("said %q", c.log())
	}
}

// TestStartsWithoutAPIServer: who starts while the API server is away works when it is back.
func TestStartsWithoutAPIServer(t *testing.T) {
	tenant := makeTenant(t)
	makeDeployment(t, tenant.ns, "web", 2, "on=true", "expected=2", "window=00:00-24:00")
	waitReplicas(t, tenant.ns, "web", 2)
	plane.KillPart(cluster.APIServer)
	c := launch(t, "--kubeconfig", tenant.kubeconfig, "--namespace", tenant.ns)
	c.eventually("it waits", func() bool { return strings.Contains(c.log(), "Waiting for the API server") })
	<-time.After(2 * time.Second)
	if err := plane.StartPart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	c.waitReady()
	waitReplicas(t, tenant.ns, "web", 0)
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
