package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestExtras: the alerts are right by promtool, and all that alerts and dashboard ask
// for is served by the program.
func TestExtras(t *testing.T) {
	rules, err := os.ReadFile(repoFile("deploy/extras/prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct{ Spec map[string]any }
	if err := yaml.Unmarshal(rules, &rule); err != nil {
		t.Fatal(err)
	}
	checkRules(t, rule.Spec)

	dashboard, err := os.ReadFile(repoFile("deploy/extras/grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(dashboard, &board); err != nil || len(board.Panels) == 0 {
		t.Fatalf("%d panels, error %v", len(board.Panels), err)
	}
	expressions := string(rules)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expressions += "\nexpr: " + target.Expr
		}
	}

	c := start(t)
	c.waitLeading()
	ns := makeNamespace(t)
	makeDeployment(t, ns, "web", 1, "on=true", "expected=1", "window=00:00-24:00", "awake-until="+inAnHour())
	waitCondition(t, ns, "web", corev1.ConditionFalse, "AwakeUntil")
	_, served := c.get("/metrics")
	names := regexp.MustCompile(`\b(schedule_night|controller|leader_election|workqueue)_[a-z_]+`)
	found := 0
	for line := range strings.Lines(expressions) {
		if !strings.Contains(line, "expr:") {
			continue
		}
		for _, name := range names.FindAllString(line, -1) {
			found++
			if !strings.Contains(served, "\n"+name+"{") && !strings.Contains(served, "\n"+name+" ") {
				t.Errorf("%s is asked for and not served", name)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d metrics in the expressions", found)
	}
	for _, name := range []string{"workqueue_depth", "rest_client_requests_total", "schedule_night_transition_lag_seconds_bucket", "controller_reconcile_duration_seconds_count"} {
		if !strings.Contains(served, "\n"+name) {
			t.Errorf("%s is not served", name)
		}
	}
}

// checkRules has promtool check the rules; it comes with Debian's prometheus.
func checkRules(t *testing.T, groups map[string]any) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is missing; .ci/run installs it")
		}
		t.Log("promtool is not installed: the alerts are not checked by it")
		return
	}
	text, err := yaml.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
