package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"schedule-night/test/cluster"
)

// TestKubectlPlugin: under the names that kubectl looks for, the program is a command of
// kubectl, and kubectl completes it.
func TestKubectlPlugin(t *testing.T) {
	ns := makeNamespace(t)
	makeDeployment(t, ns, "web", 0, "on=true", "expected=3", "window=00:00-24:00")

	bin := t.TempDir()
	for _, name := range []string{"kubectl-schedule_night", "kubectl_complete-schedule_night"} {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"plugin", "list"}, []string{filepath.Join(bin, "kubectl-schedule_night")}},
		{[]string{"schedule-night", "--help"}, []string{"Usage:\n  kubectl schedule-night [flags]"}},
		{[]string{"schedule-night", "plan", "--help"}, []string{"Usage:\n  kubectl schedule-night plan ", "| kubectl schedule-night plan -f -"}},
		{[]string{"schedule-night", "plan", "-n", ns}, []string{"web", "asleep"}},
		{[]string{"schedule-night", "release", "-n", ns, "--dry-run"}, []string{"deployment " + ns + "/web: 0 -> 3"}},
		{[]string{"__complete", "schedule-night", ""}, []string{"plan\tShows when", "release\tWakes"}},
		{[]string{"__complete", "schedule-night", "plan", "-o", ""}, []string{"json\n"}},
	} {
		cmd := exec.CommandContext(t.Context(), plane.Path(cluster.Kubectl), tc.args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %q: %v\n%s", tc.args, err, out)
		}
		for _, want := range tc.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("kubectl %q: no %q in\n%s", tc.args, want, out)
			}
		}
	}
}
