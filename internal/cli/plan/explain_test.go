package plan

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"schedule-night/internal/cli/clitest"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// TestExplain is the explanation of one Deployment, without the table.
func TestExplain(t *testing.T) {
	keda := workloadtest.HPAFor("web", 1)
	keda.Labels = map[string]string{"scaledobject.keda.sh/name": "web"}
	gone := workloadtest.Deployment(3)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	since := func(d *appsv1.Deployment) *appsv1.Deployment {
		c := &d.Status.Conditions[0]
		c.LastTransitionTime = metav1.NewTime(time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC))
		return d
	}
	const night, day = "2026-11-28T23:00:00Z", "2026-11-28T12:00:00Z" // a Saturday
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		hpa  *autoscalingv2.HorizontalPodAutoscaler
		from string
		want string
	}{
		{name: "asleep, by the defaults", d: since(workloadtest.AsleepSince(workloadtest.Deployment(0))), from: night, want: `
Deployment  default/web, at Sat 2026-11-28 23:00 UTC
State       asleep, by the window's item "21:00-07:00"
Replicas    0, as is due
Next        Sun 2026-11-29 07:00 UTC: awake, held at 3
Schedule    expected 3 (annotation)
            window "21:00-07:00" (--window)
            timezone UTC (--timezone)
            night-replicas 0 (--night-replicas)
            daytime enforce (default)
Record      schedule-night.svc/Asleep is True (NightWindow) since
            2026-11-28T21:00:00Z: replicas=0 expected=3
            until=2026-11-29T07:00:00Z
Autoscaler  none
`},
		{name: "everything of its own", from: night, d: workloadtest.Deployment(3, "window=Mon-Fri 20:00-06:00, Sat 20:00-08:00, Sat 22:00-23:00, Sat 22:30-23:30, Sat 22:30-23:45", "timezone=Europe/Berlin",
			"night-replicas=1", "except=2026-12-24/2026-12-26", "awake-until=2026-11-01T00:00:00Z", "daytime=enforce", "wake-delay=10m"), want: `
Deployment  default/web, at Sun 2026-11-29 00:00 Europe/Berlin
State       asleep, by the window's item "Sat 20:00-08:00"
Replicas    3; 1 are due, and the controller scales it at once
Next        Sun 2026-11-29 08:10 Europe/Berlin: awake, held at 3
Schedule    expected 3 (annotation)
            window "Mon-Fri 20:00-06:00, Sat 20:00-08:00, Sat 22:00-23:00, Sat
            22:30-23:30, Sat 22:30-23:45" (annotation)
            timezone Europe/Berlin (annotation)
            night-replicas 1 (annotation)
            except "2026-12-24/2026-12-26" (annotation)
            awake-until "2026-11-01T00:00:00Z", which has passed (annotation)
            daytime enforce (annotation)
            wake-delay "10m" (annotation)
Record      none: no controller has written one here
Autoscaler  none
`},
		{name: "in the day, with an autoscaler", from: day, d: workloadtest.Deployment(7, "night-replicas=1", "daytime=enforce"), hpa: workloadtest.HPAFor("web", 2), want: `
Deployment  default/web, at Sat 2026-11-28 12:00 UTC
State       awake, outside of the window
Replicas    7, which is left alone: in the day it is wake-only
Next        Sat 2026-11-28 21:00 UTC: asleep, at 2
Schedule    expected 3 (annotation)
            window "21:00-07:00" (--window)
            timezone UTC (--timezone)
            night-replicas 1 (annotation)
            daytime enforce (annotation)
Record      none: no controller has written one here
Autoscaler  HorizontalPodAutoscaler hpa keeps 2 or more: in the day its count is
            left alone; schedule-night.svc/daytime enforce does not go with
            HorizontalPodAutoscaler hpa; taken as wake-only
`},
		{name: "invalid", from: day, d: workloadtest.WithCondition(workloadtest.Deployment(3, "window=9pm"), corev1.ConditionUnknown, workload.ReasonInvalidSchedule, "x"), want: `
Deployment  default/web, at Sat 2026-11-28 12:00 UTC
State       invalid, and not scaled until this is right:
            schedule-night.svc/window "9pm": "9pm" is not a start; use HH:MM,
            00:00 to 23:59
Replicas    3, which nothing changes
Next        nothing, until the annotation is right
Record      schedule-night.svc/Asleep is Unknown (InvalidSchedule) since
            0001-01-01T00:00:00Z: x
`},
		{name: "opted out while it slept", from: night, d: since(workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on")), want: `
Deployment  default/web, at Sat 2026-11-28 23:00 UTC
State       released: it has been opted out, and its record says that it sleeps
Replicas    0; 3 are due, and the controller scales it at once
Next        its record is updated, and it is left alone
Record      schedule-night.svc/Asleep is True (NightWindow) since
            2026-11-28T21:00:00Z: replicas=0 expected=3
            until=2026-11-29T07:00:00Z
`},
		{name: "not managed", from: night, d: workloadtest.Without(workloadtest.Deployment(3), "on"), want: `
Deployment  default/web, at Sat 2026-11-28 23:00 UTC
State       not managed: it has no annotation schedule-night.svc/on
Replicas    3, which nothing changes
Next        nothing, as long as it is not managed
Record      none: no controller has written one here
`},
	} {
		p := planOf(t, tc.from, 24*time.Hour)
		p.names = []string{"web"}
		if tc.hpa != nil {
			if err := p.addAutoscaler(tc.hpa, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.add(tc.d, ""); err != nil {
			t.Fatal(err)
		}
		p.plan()
		if got := "\n" + p.explain(p.explained[0], screen{width: 80}); got != tc.want {
			t.Errorf("%s: got%s\nwant%s", tc.name, got, tc.want)
		}
	}

	// The rest by single lines.
	line := func(label string, p *planner) string {
		text := p.explain(p.explained[0], screen{width: 1000})
		for l := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(l, label+" "); ok {
				return strings.TrimSpace(rest)
			}
		}
		return text
	}
	for _, tc := range []struct {
		name        string
		d           *appsv1.Deployment
		hpa         *autoscalingv2.HorizontalPodAutoscaler
		from        string
		change      func(*planner)
		label, want string
	}{
		{name: "opted out", d: workloadtest.Deployment(3, "on=false"), label: "State", want: `not managed: schedule-night.svc/on is "false"`},
		{name: "going", d: gone, label: "State", want: "not managed: it is being deleted"},
		{name: "excluded", d: workloadtest.Placed("kube-system", "web", workloadtest.Deployment(3)), label: "State",
			change: func(p *planner) { p.scope.Excluded = []string{"kube-system"} }, want: "not managed: its namespace is among --exclude-namespaces"},
		{name: "kept awake", d: workloadtest.Deployment(3, "awake-until=2026-11-30T00:00:00Z"), label: "State",
			want: `awake, by awake-until; without it: asleep, by the window's item "21:00-07:00"`},
		{name: "kept asleep", d: workloadtest.Deployment(0, "asleep-until=2026-11-30T00:00:00Z"), from: day, label: "State",
			want: "asleep, by asleep-until; without it: awake, outside of the window"},
		{name: "kept both", d: workloadtest.Deployment(0, "asleep-until=2026-11-30T00:00:00Z", "awake-until=2026-12-01T00:00:00Z"), label: "Next",
			want: "Mon 2026-11-30 00:00 UTC: one of the two has passed"},
		{name: "an exception", d: workloadtest.Deployment(3, "except=Sat"), label: "State",
			want: `awake, since except takes this night out of the window's item "21:00-07:00"`},
		{name: "an exception of another day", d: workloadtest.Deployment(3, "except=Sun"), label: "State", want: `asleep, by the window's item "21:00-07:00"`},
		{name: "two items", d: workloadtest.Deployment(3, "window=22:00-01:00, 22:00-02:00"), label: "State",
			want: `asleep, by the window's items "22:00-01:00" and "22:00-02:00"`},
		{name: "four items", d: workloadtest.Deployment(3, "window=22:00-01:00, 22:00-02:00, 22:00-03:00, 22:00-04:00, 01:00-02:00"), label: "State",
			want: `asleep, by the window's items "22:00-01:00", "22:00-02:00" and 2 more`},
		{name: "a delay", d: workloadtest.AsleepSince(workloadtest.Deployment(0, "window=20:00-22:55", "wake-delay=10m")), label: "State",
			want: `asleep, by the wake delay after the window's item "20:00-22:55"`},
		{name: "a delay of a night that was not slept", d: workloadtest.Deployment(3, "window=20:00-22:55", "wake-delay=10m"), label: "State",
			want: `awake: the wake delay after the window's item "20:00-22:55" holds who slept, and puts nobody to sleep`},
		{name: "and what comes next", d: workloadtest.Deployment(3, "window=20:00-22:55", "wake-delay=10m"), label: "Next",
			want: "Sun 2026-11-29 20:00 UTC: asleep, at 0"},
		{name: "kept awake in a delay", d: workloadtest.Deployment(3, "window=20:00-22:55", "wake-delay=10m", "awake-until=2026-11-30T00:00:00Z"), label: "State",
			want: `awake, by awake-until; without it: awake: the wake delay after the window's item "20:00-22:55" holds who slept, and puts nobody to sleep`},
		{name: "a stagger", d: workloadtest.Deployment(3), change: func(p *planner) { p.defaults.WakeStagger = time.Hour }, label: "Next",
			want: "Sun 2026-11-29 07:30:37 UTC: awake, held at 3"},
		{name: "wake-only", d: workloadtest.Deployment(0, "daytime=wake-only"), label: "Next",
			want: "Sun 2026-11-29 07:00 UTC: awake, raised to 3 if it has fewer, then left alone"},
		{name: "never", d: workloadtest.Deployment(3, "window=2020-01-01 21:00-22:00"), label: "Next", want: "no change within 366 days"},
		{name: "somebody in the night", d: workloadtest.AsleepSince(workloadtest.Deployment(2)), label: "Record",
			want: "schedule-night.svc/Asleep is True (NightWindow) since 0001-01-01T00:00:00Z: replicas=0 expected=3 until=2026-11-29T07:00:00Z; it has 2 now"},
		{name: "no autoscalers", d: workloadtest.Deployment(3), change: func(p *planner) { p.autoscalers = nil }, label: "Autoscaler", want: "not looked at, by --hpa-aware=false"},
		{name: "forbidden autoscalers", d: workloadtest.Deployment(3), change: func(p *planner) { p.autoscalersUnread = true }, label: "Autoscaler", want: "unknown: HorizontalPodAutoscalers may not be read"},
		{name: "KEDA's", d: workloadtest.Deployment(3), hpa: keda, label: "Autoscaler",
			want: "HorizontalPodAutoscaler hpa may go down to 0: in the day its count is left alone, 0 too"},
		{name: "hostile", d: workloadtest.Deployment(3, "on=\x1b[2J\n"), label: "State",
			want: `invalid, and not scaled until this is right: schedule-night.svc/on "\x1b[2J\n": want true or false`},
		{name: "a hostile record", d: workloadtest.WithCondition(workloadtest.Deployment(3), corev1.ConditionFalse, "X", "\x1b[2J\u202e\n"), label: "Record",
			want: `schedule-night.svc/Asleep is False (X) since 0001-01-01T00:00:00Z: \u001b[2J\u202e\u000a`},
	} {
		from := tc.from
		if from == "" {
			from = night
		}
		p := planOf(t, from, 24*time.Hour)
		p.names = []string{"web"}
		if tc.change != nil {
			tc.change(p)
		}
		if tc.hpa != nil {
			if err := p.addAutoscaler(tc.hpa, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.add(tc.d, ""); err != nil {
			t.Fatal(err)
		}
		p.plan()
		if got := line(tc.label, p); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

// TestPlanNames is about the arguments.
func TestPlanNames(t *testing.T) {
	manifests := clitest.Manifest("shop/web", "on=true", "expected=1") + clitest.Manifest("lab/web") + clitest.Manifest("shop/db.v2") + clitest.Manifest("shop/deployment")
	for _, tc := range []struct {
		args   string
		exit   int
		rows   string
		stderr string // its end
	}{
		{"web", 0, "lab/web shop/web", ""},
		{"-n shop web", 0, "shop/web", ""},
		{"-n shop deployment/web", 0, "shop/web", ""},
		{"-n shop deployments.apps/web deploy/db.v2", 0, "shop/db.v2 shop/web", ""},
		{"-n shop deploy web web", 0, "shop/web", ""},
		{"-n shop deployment", 0, "shop/deployment", ""},
		{"-l app=web web deploy/db.v2", 1, "lab/web shop/web", "error: there is no Deployment db.v2\n"},
		{"-n shop web nothing", 1, "shop/web", "error: there is no Deployment nothing in namespace shop\n"},
		{"web.yaml", 2, "", `error: plan takes names of Deployments, got "web.yaml"; name files with -f` + "\n"},
		{"shop/web", 2, "", `error: plan takes names of Deployments, got "shop/web"; name files with -f` + "\n"},
		{"-- -", 2, "", `error: plan takes names of Deployments, got "-"; name files with -f` + "\n"},
		{"sts/web", 2, "", `error: "sts/web": only Deployments are scaled` + "\n"},
		{"Web", 2, "", "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
		{"deployment/", 2, "", "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
	} {
		stdout, stderr, exit := runPlan(t, manifests, append([]string{"-f", "-", "-o", "json"}, strings.Fields(tc.args)...)...)
		var rows []outlook.Row
		if tc.exit < 2 {
			if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
				t.Fatalf("%s: %v\n%s", tc.args, err, stdout)
			}
		}
		var names []string
		for _, r := range rows {
			names = append(names, r.Namespace+"/"+r.Name)
		}
		if got := strings.Join(names, " "); got != tc.rows || exit != tc.exit || !strings.HasSuffix(stderr, tc.stderr) {
			t.Errorf("%s: exit %d, rows %q\n%s", tc.args, exit, got, stderr)
		}
	}

	stdout, _, _ := runPlan(t, manifests, "-f", "-", "web")
	if strings.Count(stdout, "NAMESPACE ") != 2 || strings.Count(stdout, "\n\nDeployment  ") != 2 || strings.Contains(stdout, "db.v2") {
		t.Errorf("printed\n%s", stdout)
	}
	if stdout, _, _ = runPlan(t, manifests, "-f", "-", "-n", "lab", "web"); !strings.HasPrefix(stdout, "Deployment  lab/web") {
		t.Errorf("a table of what is not managed:\n%s", stdout)
	}
}

// TestPlanNamesCluster: only what has the names is asked for.
func TestPlanNamesCluster(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if selector := r.URL.Query().Get("fieldSelector"); selector != "" {
			asked = append(asked, r.URL.Path+"?"+selector)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","items":[]}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "a", "clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "a", "context": {"cluster": "c", "namespace": "shop"}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, exit := runPlan(t, "", "--kubeconfig", kubeconfig, "web", "db")
	want := []string{"/apis/apps/v1/namespaces/shop/deployments?metadata.name=web", "/apis/apps/v1/namespaces/shop/deployments?metadata.name=db"}
	if !slices.Equal(asked, want) || exit != 1 || stderr != "error: there is no Deployment web in namespace shop\nthere is no Deployment db in namespace shop\n" {
		t.Errorf("exit %d, asked for %q\n%s", exit, asked, stderr)
	}
}
