package install

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// night runs the program over one namespace until the test is over.
func night(t *testing.T, namespace string) {
	t.Helper()
	cmd := exec.Command(program, "--kubeconfig", plane.Kubeconfig, "--namespace", namespace, "--leader-elect=false", "--listen-address", "")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the controller: %v\n%s", err, log.String())
		}
	})
}

// TestHelmReplicas: what docs/coexistence.md says of Helm, and so of server-side apply, for a
// chart with replicas of its own.
func TestHelmReplicas(t *testing.T) {
	const (
		asleep   = "schedule.asleep-until=2099-01-01T00:00:00Z"
		awake    = "schedule.awake-until=2099-01-01T00:00:00Z"
		conflict = `Apply failed with 1 conflict: conflict with "schedule-night" with subresource "scale" using apps/v1: .spec.replicas`
	)
	namespace := ""
	try := func(args ...string) error {
		_, err := command(t, "", helm, append([]string{"upgrade", "--install", "web", "testdata/shop", "-n", namespace, "--create-namespace"}, args...)...)
		return err
	}
	upgrade := func(args ...string) {
		t.Helper()
		if err := try(args...); err != nil {
			t.Fatal(err)
		}
	}
	// refused must be told of by its words: whoever searches for them is to find our document.
	refused := func(args ...string) {
		t.Helper()
		if err := try(args...); err == nil || !strings.Contains(err.Error(), conflict) {
			t.Errorf("helm upgrade %q: %v", args, err)
		}
	}
	replicas := func() string {
		t.Helper()
		return kubectl(t, "get", "deployment", "-n", namespace, "web", "-o", "jsonpath={.spec.replicas}")
	}
	wait := func(n string) {
		t.Helper()
		kubectl(t, "wait", "--for=jsonpath={.spec.replicas}="+n, "--timeout=60s", "deployment/web", "-n", namespace)
	}

	{ // above 0
		namespace = "helm-above"
		one := "schedule.expected=3,schedule.night-replicas=1,"
		upgrade("--set-string", one+awake)
		night(t, namespace)
		upgrade("--set-string", one+asleep)
		wait("1")
		refused("--set-string", one+asleep, "--set", "image=app:2")
		upgrade("--set-string", one+asleep, "--set", "image=app:2", "--force-conflicts")
		wait("1")
		refused("--set-string", one+asleep, "--set", "image=app:3")
		// Without replicas of its own there is nothing to be in conflict about.
		upgrade("--set-string", one+asleep, "--set", "image=app:3,replicas=0")
		if n := replicas(); n != "1" {
			t.Errorf("%s replicas once they are left out", n)
		}
		upgrade("--set-string", one+awake, "--set", "image=app:4,replicas=0")
		wait("3")
		upgrade("--set-string", one+awake, "--set", "image=app:5,replicas=0")
		if n := replicas(); n != "3" {
			t.Errorf("%s replicas after an upgrade in the day", n)
		}
	}
	{ // at 0
		namespace = "helm-zero"
		upgrade("--set-string", "schedule.expected=3,"+awake)
		night(t, namespace)
		upgrade("--set-string", "schedule.expected=3,"+asleep)
		wait("0")
		upgrade("--set-string", "schedule.expected=3,"+asleep, "--set", "replicas=0")
		if n := replicas(); n != "0" {
			t.Errorf("%s replicas once they are left out at night", n)
		}
		upgrade("--set-string", "schedule.expected=3,"+asleep, "--set", "image=app:2")
		wait("0")
		upgrade("--set-string", "schedule.expected=3,"+awake)
		wait("3")
		upgrade("--set-string", "schedule.expected=3,"+awake, "--set", "image=app:3")
		// A day's count that is not the chart's is the same as a night's above 0.
		upgrade("--set-string", "schedule.expected=5,"+awake, "--set", "image=app:3")
		wait("5")
		refused("--set-string", "schedule.expected=5,"+awake, "--set", "image=app:4")
		upgrade("--set-string", "schedule.expected=5,"+awake, "--set", "image=app:4,replicas=5")
		// Both own the count now, so to leave it out costs no Pod.
		upgrade("--set-string", "schedule.expected=5,"+awake, "--set", "image=app:4,replicas=0")
		if n := replicas(); n != "5" {
			t.Errorf("%s replicas once they are left out", n)
		}
	}
	{ // left out
		namespace = "helm-left-out"
		upgrade("--set-string", "schedule.expected=3,"+awake)
		upgrade("--set-string", "schedule.expected=3,"+awake, "--set", "replicas=0")
		if n := replicas(); n != "1" { // what nobody owns has the API's default
			t.Errorf("%s replicas once they are left out", n)
		}
		night(t, namespace)
		wait("3")
	}
}
