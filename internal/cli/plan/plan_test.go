package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"schedule-night/internal/cli"
	"schedule-night/internal/cli/clitest"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/outlook"
	"schedule-night/internal/outlook/outlooktest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// runPlan runs the command plan.
func runPlan(t *testing.T, stdin string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	return clitest.Run(t, NewCommand(outlooktest.Decide), stdin, args...)
}

func TestPlanJSON(t *testing.T) {
	got, stderr, exit := runPlan(t, "", "-f", "testdata/shop.yaml", "-o", "json", "--from", "2026-11-27T18:00:00+01:00", "--for", "38h")
	want, err := os.ReadFile("testdata/shop.json")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := `testdata/shop.yaml, document 5: shop/broken: schedule-night.svc/window "9pm-7am": "9pm" is not a start; use HH:MM, 00:00 to 23:59
error: invalid schedules or documents: 1
`; stderr != want || exit != 1 {
		t.Errorf("exit %d, stderr\n%s", exit, stderr)
	}
}

// TestPlanRows is about what a schedule comes to, by one line for each row:
// namespace/name state replicas/expected/nightReplicas transitions.
func TestPlanRows(t *testing.T) {
	const on = "on=true"
	for _, tc := range []struct {
		name  string
		stdin string
		args  []string
		want  string
		exit  int
	}{
		{name: "nothing", want: ""},
		{name: "comments alone", stdin: "# a\n---\n# b\n", want: ""},
		{name: "defaults", stdin: clitest.Manifest("web", on, "expected=2"),
			want: "default/web awake 3/2/0 28T21:00:00Z=asleep/0 29T07:00:00Z=awake/2"},
		{name: "other defaults", stdin: clitest.Manifest("web", on, "expected=2"),
			args: []string{"--window", "22:00-06:00", "--timezone", "Asia/Tokyo", "--night-replicas", "1"},
			want: "default/web awake 3/2/1 28T13:00:00Z=asleep/1 28T21:00:00Z=awake/2"},
		{name: "spread wake-ups", stdin: clitest.Manifest("a", on, "expected=2") + clitest.Manifest("b", on, "expected=2"), args: []string{"--wake-stagger", "1h"},
			want: "default/a awake 3/2/0 28T21:00:00Z=asleep/0 29T07:37:15.674Z=awake/2\ndefault/b awake 3/2/0 28T21:00:00Z=asleep/0 29T07:49:25.09Z=awake/2"},
		{name: "a change at the start has happened", stdin: clitest.Manifest("web", on, "expected=2", "window=12:00-13:00"), args: []string{"--for", "59m"},
			want: "default/web asleep 3/2/0"},
		{name: "a change at the end counts", stdin: clitest.Manifest("web", on, "expected=2", "window=12:00-13:00"), args: []string{"--for", "1h"},
			want: "default/web asleep 3/2/0 28T13:00:00Z=awake/2"},
		{name: "seconds of an override", stdin: clitest.Manifest("web", on, "expected=2", "asleep-until=2026-11-28T12:00:00.5Z"), args: []string{"--for", "1s"},
			want: "default/web asleep 3/2/0 28T12:00:00.5Z=awake/2"},
		{name: "both overrides ahead", stdin: clitest.Manifest("web", on, "expected=2", "awake-until=2026-11-28T13:00:00Z", "asleep-until=2026-11-28T14:00:00Z"),
			want: "default/web invalid 3/2/0 28T13:00:00Z=asleep/0 28T14:00:00Z=awake/2 28T21:00:00Z=asleep/0 29T07:00:00Z=awake/2", exit: 1},
		{name: "invalid", stdin: clitest.Manifest("a", "on=yes") + clitest.Manifest("b", on) + clitest.Manifest("c", on, "expected=1"), args: []string{"--for", "1h"},
			want: "default/a invalid 3/0/0\ndefault/b invalid 3/0/0\ndefault/c awake 3/1/0", exit: 1},
		{name: "unmanaged", stdin: clitest.Manifest("a", "on=false", "expected=x") + clitest.Manifest("b"),
			want: "default/a unmanaged 3/0/0\ndefault/b unmanaged 3/0/0"},
		{name: "being deleted", stdin: strings.Replace(clitest.Manifest("a", on, "expected=x"), "labels:", "deletionTimestamp: 2026-11-28T12:00:00Z\n  labels:", 1),
			want: "default/a unmanaged 3/0/0"},
		{name: "no replicas", stdin: strings.ReplaceAll(clitest.Manifest("a"), "replicas: 3", ""),
			want: "default/a unmanaged 1/0/0"},
		{name: "named when it is created", stdin: strings.Replace(clitest.Manifest("job-", on, "expected=2"), "  name:", "  generateName:", 1), args: []string{"--for", "1h"},
			want: "default/job-… awake 3/2/0"},
		{name: "UTF-16, with a byte order mark", args: []string{"-f", "testdata/reports/utf16bom.yaml", "--for", "1h"},
			want: "shop/web asleep 3/3/0"},
		{name: "UTF-16 without", args: []string{"-f", "testdata/reports/utf16le.yaml", "--for", "1h"},
			want: "shop/web asleep 3/3/0"},
		{name: "sorted", stdin: clitest.Manifest("b/a") + clitest.Manifest("c") + clitest.Manifest("a/z") + clitest.Manifest("b/A") + clitest.Manifest("a"),
			want: "a/z unmanaged 3/0/0\nb/A unmanaged 3/0/0\nb/a unmanaged 3/0/0\ndefault/a unmanaged 3/0/0\ndefault/c unmanaged 3/0/0"},
		{name: "namespace", stdin: clitest.Manifest("a/x") + clitest.Manifest("x") + clitest.Manifest("default/y"), args: []string{"-n", "default"},
			want: "default/x unmanaged 3/0/0\ndefault/y unmanaged 3/0/0"},
		{name: "all namespaces", stdin: clitest.Manifest("a/x") + clitest.Manifest("x"), args: []string{"-n", "default", "-A"},
			want: "a/x unmanaged 3/0/0\ndefault/x unmanaged 3/0/0"},
		{name: "excluded namespaces", stdin: clitest.Manifest("kube-system/x") + clitest.Manifest("a/x") + clitest.Manifest("b/x"), args: []string{"--exclude-namespaces", "a,b"}}, // which leaves kube-system out all the same
		{name: "one excluded namespace", stdin: clitest.Manifest("c/x") + clitest.Manifest("a/x"), args: []string{"--exclude-namespaces", "a"},
			want: "c/x unmanaged 3/0/0"},
		{name: "excluded by default", stdin: clitest.Manifest("kube-system/x", on)},
		{name: "selector", stdin: clitest.Manifest("x") + clitest.Manifest("y") + clitest.Manifest("z"), args: []string{"-l", "app in (x, z)"},
			want: "default/x unmanaged 3/0/0\ndefault/z unmanaged 3/0/0"},
		{name: "other kinds", stdin: "apiVersion: v1\nkind: Service\nitems: 3\n" + clitest.Manifest("x") + "---\napiVersion: apps/v1beta1\nkind: Deployment\nspec: 3\n",
			want: "default/x unmanaged 3/0/0"},
		{name: "a list", stdin: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}\n- {apiVersion: v1, kind: Service}\n- {apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: z}}]}\n",
			want: "default/x unmanaged 1/0/0\ndefault/z unmanaged 1/0/0"},
		{name: "the API server's list", stdin: `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"x"}}]}`,
			want: "default/x unmanaged 1/0/0"},
		{name: "JSON documents", stdin: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}} {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"y"}}`,
			want: "default/x unmanaged 1/0/0\ndefault/y unmanaged 1/0/0"},
		{name: "JSON and YAML", stdin: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}` + "\n" + clitest.Manifest("y"),
			want: "default/x unmanaged 1/0/0\ndefault/y unmanaged 3/0/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stdout, stderr, exit := runPlan(t, tc.stdin, append([]string{"-f", "-", "-o", "json", "--from", "2026-11-28T12:00:00Z"}, tc.args...)...)
			var rows []outlook.Row
			if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, r := range rows {
				line := fmt.Sprintf("%s/%s %s %d/%d/%d", r.Namespace, r.Name, r.State, r.Replicas, r.Expected, r.NightReplicas)
				for _, tr := range r.Transitions {
					line += fmt.Sprintf(" %s=%s/%d", tr.At.Format("02T15:04:05.999Z07:00"), tr.To, tr.Replicas)
				}
				lines = append(lines, line)
			}
			if got := strings.Join(lines, "\n"); got != tc.want || exit != tc.exit {
				t.Errorf("exit %d, got\n%s\nwant\n%s\nstderr:\n%s", exit, got, tc.want, stderr)
			}
			if len(rows) == 0 && stdout != "[]\n" {
				t.Errorf("an empty plan is %q", stdout)
			}
			if strings.Contains(stdout, "null") {
				t.Errorf("null in %s", stdout)
			}
		})
	}
}

// TestPlanErrors is about what goes to stderr, and the exit status.
func TestPlanErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := clitest.Manifest("good", "on=true", "expected=1")
	bad := write("bad.yaml", "# a licence\n\n"+good+"---\n# nothing\n---\na: b: c\n"+clitest.Manifest("shop/web", "on=true")+good)
	write("dir/a.yaml", good+clitest.Manifest("web", "on=maybe"))
	write("dir/b.json", `{"apiVersion": "apps/v1"}`)
	write("dir/c.txt", "{")
	write("dir/sub/d.yaml", "{")
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name  string
		stdin string
		args  string
		exit  int
		want  []string // in stderr
		good  int      // how often the good one is planned
	}{
		{name: "good", stdin: good, args: "-f -", good: 1},
		{name: "a file, by document", args: "-f " + bad, exit: 1, good: 2, want: []string{
			bad + ", document 3: error converting YAML to JSON: yaml: ",
			bad + ", document 4: shop/web: schedule-night.svc/expected is missing: ",
			"error: invalid schedules or documents: 2\n"}},
		{name: "a directory", args: "-f " + dir + "/dir", exit: 1, good: 1, want: []string{
			dir + `/dir/a.yaml, document 2: default/web: schedule-night.svc/on "maybe": want true or false`,
			dir + "/dir/b.json, document 1: apiVersion or kind is missing"}},
		{name: "stdin and file", stdin: clitest.Manifest("web", "on=x"), args: "-f - -f " + bad, exit: 1, good: 2, want: []string{"stdin, document 1: default/web: ", "bad.yaml, document 4: "}},
		{name: "an item", stdin: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service"},{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","annotations":{"schedule-night.svc/on":"?"}}}]}`,
			args: "-f -", exit: 1, want: []string{`stdin, document 1, item 2: default/x: schedule-night.svc/on "?"`}},
		{name: "no quotes", stdin: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {annotations: {schedule-night.svc/on: true}}\n" + good,
			args: "-f -", exit: 1, good: 1, want: []string{`stdin, document 1: put annotation values in quotes, e.g. "true" or "3": `}},
		{name: "replicas", stdin: "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: many}\n" + good,
			args: "-f -", exit: 1, good: 1, want: []string{"stdin, document 1: json: cannot unmarshal string into Go struct field "}},
		{name: "a word", stdin: good + "---\nhello\n" + good, args: "-f -", exit: 1, good: 2, want: []string{"stdin, document 2: json: "}},
		{name: "JSON", stdin: `{"apiVersion":"v1","kind":"Service"} {"apiVersion":"v1","kind":"Service"} {"apiVersion"}`,
			args: "-f -", exit: 1, want: []string{"stdin, document 3: invalid character '}' after object key"}},
		{name: "a template", stdin: "{{ if .Values.on }}\n" + good, args: "-f -", exit: 1, want: []string{"stdin, document 1: json: offset 2: "}},
		{name: "invalid, and named when it is created", stdin: strings.Replace(clitest.Manifest("job-", "on=x"), "  name:", "  generateName:", 1),
			args: "-f -", exit: 1, want: []string{`stdin, document 1: default/job-…: schedule-night.svc/on "x": `}},
		{name: "invalid elsewhere", stdin: good + clitest.Manifest("shop/web", "on=x"), args: "-f - -n default", good: 1},
		{name: "no such file", args: "-f /nonexistent -f " + dir + "/dir/a.yaml -n other", exit: 1, want: []string{"reading /nonexistent: open /nonexistent: no such file"}},
		{name: "an empty directory", args: "-f " + empty, exit: 1, want: []string{empty + ": no .yaml, .yml or .json files in this directory"}},

		{name: "no cluster", args: "--kubeconfig /nonexistent", exit: 1, want: []string{"reading the kubeconfig: "}},
		{name: "an argument", args: "web.yaml", exit: 2, want: []string{`plan takes names of Deployments, got "web.yaml"; name files with -f`}},
		{name: "an unknown flag", args: "--frum x", exit: 2, want: []string{"unknown flag: --frum"}},
		{name: "usage", args: "-f - --from tomorrow --for -1h -l a=b=c -n kube-system", exit: 2, want: []string{
			`--from "tomorrow": want an RFC 3339 time`,
			`--for "-1h0m0s": want more than 0s and at most 744h (31 days)`,
			`--selector "a=b=c": `,
			`--namespace "kube-system": is never managed`}},
		{name: "a long plan", args: "-f - --for 745h", exit: 2, want: []string{`--for "745h0m0s": want`}},
		{name: "a format", args: "-f - --output yaml", exit: 2, want: []string{`--output "yaml": want json, or nothing for a table`}},
		{name: "no plan", args: "-f - --for 0s", exit: 2, want: []string{`--for "0s": want`}},
		{name: "no duration", args: "-f - --for 1d", exit: 2, want: []string{`--for "1d": time: unknown unit "d"`}},
		{name: "a window", args: "-f - --window 9pm", exit: 2, want: []string{`--window "9pm": "9pm" is not a start`}},
		{name: "a zone", args: "-f - --timezone Mars", exit: 2, want: []string{`--timezone "Mars": want the name of an IANA time zone`}},
		{name: "a night count", args: "-f - --night-replicas -1", exit: 2, want: []string{`--night-replicas "-1": want replicas`}},
	} {
		for _, format := range []string{"", "-o json "} {
			stdout, stderr, exit := runPlan(t, tc.stdin, strings.Fields(format+tc.args)...)
			if exit != tc.exit {
				t.Errorf("%s%s: exit %d, want %d", tc.name, format, exit, tc.exit)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%s%s: no %q in\n%s", tc.name, format, want, stderr)
				}
			}
			if tc.exit == 0 && stderr != "" {
				t.Errorf("%s%s: unexpected\n%s", tc.name, format, stderr)
			}
			if format != "" && strings.Count(stdout, `"good"`) != tc.good {
				t.Errorf("%s: want the good one %d times in\n%s", tc.name, tc.good, stdout)
			}
		}
	}
}

// TestPlanNotes: what looks like an annotation of ours and has no effect is told, and is
// no error.
func TestPlanNotes(t *testing.T) {
	const dir = "testdata/reports/"
	for _, tc := range []struct {
		args, stderr string
		exit         int
	}{
		{"-f " + dir + "wrong-place.yaml", dir + `wrong-place.yaml, document 1: shop/in-template: schedule-night.svc/expected and schedule-night.svc/on in the Pod template have no effect; they belong into the Deployment's own metadata.annotations
` + dir + `wrong-place.yaml, document 2: shop/as-labels: schedule-night.svc/expected and schedule-night.svc/on among the labels have no effect; they belong into metadata.annotations
` + dir + `wrong-place.yaml, document 3: shop/no-on: schedule-night.svc/expected and schedule-night.svc/window have no effect without schedule-night.svc/on: "true"
` + dir + `wrong-place.yaml, document 4: Namespace shop: schedule-night.svc/expected and schedule-night.svc/on have no effect on a Namespace of v1; only Deployments of apps/v1 are scaled
` + dir + `wrong-place.yaml, document 5: StatefulSet shop/db: schedule-night.svc/expected and schedule-night.svc/on have no effect on a StatefulSet of apps/v1; only Deployments of apps/v1 are scaled
`, 0},
		{"-n other -f " + dir + "wrong-place.yaml", "", 0},
		{"as-labels -f " + dir + "wrong-place.yaml", dir + `wrong-place.yaml, document 2: shop/as-labels: schedule-night.svc/expected and schedule-night.svc/on among the labels have no effect; they belong into metadata.annotations
`, 0},
		{"-f " + dir + "typo-names.yaml", dir + `typo-names.yaml, document 1: shop/web: schedule-night.svc/nightReplicas has no effect; schedule-night.svc/night-replicas may be meant
` + dir + `typo-names.yaml, document 1: shop/web: schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant
` + dir + `typo-names.yaml, document 1: shop/web: schedule-night.svc/windows has no effect; schedule-night.svc/window may be meant
` + dir + `typo-names.yaml, document 1: shop/web: schedulenight.svc/daytime has no effect; schedule-night.svc/daytime may be meant
`, 0},
		{"-f " + dir + "tz-right.yaml", dir + `tz-right.yaml, document 1: shop/web: schedule-night.svc/timezone "right/Europe/Berlin": want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC
error: invalid schedules or documents: 1
`, 1},
		{"-f " + dir + "w04.yaml", dir + `w04.yaml, document 1: shop/web: schedule-night.svc/window "Fri 21:00-Mon 07:00": "Mon" is not an end; use HH:MM, 00:00 to 24:00
error: invalid schedules or documents: 1
`, 1},
	} {
		_, stderr, exit := runPlan(t, "", strings.Fields(tc.args)...)
		if stderr != tc.stderr || exit != tc.exit {
			t.Errorf("%s: exit %d, got\n%s\nwant\n%s", tc.args, exit, stderr, tc.stderr)
		}
	}
}

// TestPlanHostile: nothing that a terminal acts on gets from files to it.
func TestPlanHostile(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;x\x07\u009b31m\u202e\r\n\x7f\U000E0041"
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	quoted := string(text[1 : len(text)-1])
	stdin := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","namespace":"NAME","annotations":{"schedule-night.svc/on":"true","schedule-night.svc/expected":"1"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","annotations":{"schedule-night.svc/on":"NAME"}}}
{"apiVersion":"NAME"}{"apiVersion":"apps/v1","kind":"Deployment","spec":{"NAME":1,"replicas":"NAME"}}`
	stdin = strings.ReplaceAll(stdin, "NAME", quoted)
	for _, args := range [][]string{{"-f", "-"}, {"-f", "-", "-o", "json"}, {"-f", evil}} {
		stdout, stderr, exit := runPlan(t, stdin, args...)
		if exit != 1 {
			t.Errorf("%q: exit %d", args, exit)
		}
		for _, r := range stdout + stderr {
			if r != '\n' && !strconv.IsPrint(r) {
				t.Fatalf("%q: %q in\n%q", args, r, stdout+stderr)
			}
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "stdin, document ") && !strings.HasPrefix(line, "reading ") && !strings.HasPrefix(line, "error: ") {
				t.Errorf("%q: an error has broken its line:\n%s", args, stderr)
			}
		}
		if len(args) == 4 {
			var rows []outlook.Row
			if err := json.Unmarshal([]byte(stdout), &rows); err != nil || rows[0].Name != evil {
				t.Errorf("the name did not survive: %v\n%s", err, stdout)
			}
		}
	}
}

// planOf is a plan for the Deployments, one for each list of annotations.
func planOf(t *testing.T, from string, period time.Duration, deployments ...*appsv1.Deployment) *planner {
	t.Helper()
	p := &planner{decide: outlooktest.Decide, defaults: nighttest.Defaults(t), scope: cli.Scope{Selector: labels.Everything()}, from: nighttest.Time(t, from)}
	p.to = p.from.Add(period)
	p.autoscalers = map[string]*workload.Autoscaler{}
	for _, d := range deployments {
		if err := p.add(d, ""); err != nil {
			t.Fatal(err)
		}
	}
	p.plan()
	return p
}

func requesting(cpu, memory string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}
}

func TestPlanTable(t *testing.T) {
	web := workloadtest.Deployment(3, "window=21:30-07:00", "timezone=Europe/Berlin")
	web.Spec.Template.Spec = corev1.PodSpec{
		Containers:     []corev1.Container{requesting("500m", "1Gi"), requesting("250m", "512Mi"), {}},
		InitContainers: []corev1.Container{requesting("64", "64Gi"), requesting("250m", "512Mi")},
	}
	web.Spec.Template.Spec.InitContainers[1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	later := workloadtest.Placed("shop", "later", workloadtest.Deployment(1, "window=2027-02-01 21:00-22:00", "timezone=Europe/Berlin"))
	never := workloadtest.Placed("shop", "never", workloadtest.Deployment(0, "window=2020-01-01 21:00-22:00", "timezone=Europe/Berlin"))
	plain := workloadtest.Placed("shop", "plain", workloadtest.Without(workloadtest.Deployment(1), "on"))
	broken := workloadtest.Placed("shop", "broken-with-quite-a-long-name", workloadtest.Deployment(5, "window=x"))
	tokyo := workloadtest.Placed("shop", "tokyo", workloadtest.Deployment(5, "timezone=Asia/Tokyo"))

	for _, tc := range []struct {
		name   string
		screen screen
		p      *planner
		want   string
	}{
		{"bars below", screen{width: 80}, planOf(t, "2026-11-26T14:37:00+01:00", 24*time.Hour, web, later, never, plain), `
NAMESPACE  NAME   STATE  REPLICAS  EXPECTED  NEXT CHANGE
default    web    awake  3         3         Thu 21:30 Europe/Berlin
shop       later  awake  1         3         2027-02-01 21:00 Europe/Berlin
shop       never  awake  0         3         -

NAMESPACE  NAME    15:00 18:00 21:00 Fri   03:00 06:00 09:00 12:00
default    web    ██████████████░░░░░░░░░░░░░░░░░░░████████████████
shop       later  █████████████████████████████████████████████████
shop       never  █████████████████████████████████████████████████

█ awake  ░ asleep   24h from Thu 26 Nov 14:37 Europe/Berlin, 30m a cell
Not managed (no schedule-night.svc/on=true): 1
Saves 28.5 replica-hours, 28.5 CPU-hours and 57 GiB-hours of memory in 24h
`},
		{"bars beside", screen{width: 100}, planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour, web), `
NAMESPACE  NAME  STATE  REPLICAS  EXPECTED  NEXT CHANGE                   18:00 Fri   06:00
default    web   awake  3         3         Thu 21:30 Europe/Berlin  ████████▌░░░░░░░░░██████

█ awake  ░ asleep   24h from Thu 26 Nov 13:00 Europe/Berlin, 1h a cell
Saves 28.5 replica-hours, 28.5 CPU-hours and 57 GiB-hours of memory in 24h
`},
		{"zones, and narrow", screen{width: 60}, planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour, web, tokyo, broken), `
NAMES…  NAME   STATE    REPLICAS  EXPECTED  NEXT CHANGE
defau…  web    awake    3         3         Thu 21:30 +01:00
shop    tokyo  asleep   5         3         Fri 07:00 +09:00
shop    brok…  invalid  5         -         -

NAMESPACE  NAME                    12:00 18:00 Fri   06:00
default    web                     ████████▌░░░░░░░░░██████
shop       tokyo                   ░░░░░░░░░░██████████████
shop       broken-with-quite-a-l…  ????????????????????????

█ awake  ░ asleep  ? invalid   24h from Thu 26 Nov 12:00
UTC, 1h a cell
Saves 58.5 replica-hours, 28.5 CPU-hours and 57 GiB-hours of
memory in 24h
`},
		{"some days, in colour", screen{width: 110, colour: true}, planOf(t, "2026-11-26T12:00:00Z", 3*24*time.Hour, tokyo, broken), strings.NewReplacer("<", "\x1b[", ">", "m").Replace(`
NAMESPACE  NAME                           STATE    REPLICAS  EXPECTED  NEXT CHANGE
shop       tokyo                          asleep   5         3         Fri 07:00 Asia/Tokyo
shop       broken-with-quite-a-long-name  invalid  5         -         -

NAMESPACE  NAME                             Fri   12:00 Sat   12:00 Sun   12:00
shop       tokyo                          <2>░░░░░<0><32>▐██████▌<0><2>░░░░<0><32>▐██████▌<0><2>░░░░<0><32>▐██████▌<0>
shop       broken-with-quite-a-long-name  <31>?????????????????????????????????????<0>

█ awake  ░ asleep  ? invalid   72h from Thu 26 Nov 21:00 Asia/Tokyo, 2h a cell
Saves 90 replica-hours, 0 CPU-hours and 0 GiB-hours of memory in 72h
`)},
		{"opted out while asleep", screen{width: 100}, planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour,
			workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on")), `
NAMESPACE  NAME  STATE     REPLICAS  EXPECTED  NEXT CHANGE  12:00 18:00 Fri   06:00
default    web   released  0         3         -            ████████████████████████

█ awake  ░ asleep   24h from Thu 26 Nov 12:00 UTC, 1h a cell
Saves 0 replica-hours, 0 CPU-hours and 0 GiB-hours of memory in 24h
`},
		{"nothing", screen{width: 80}, planOf(t, "2026-11-26T12:00:00Z", 90*time.Minute, plain), `
No managed Deployments
Not managed (no schedule-night.svc/on=true): 1
Saves 0 replica-hours, 0 CPU-hours and 0 GiB-hours of memory in 1h30m
`},
	} {
		if got := "\n" + tc.p.table(tc.screen); got != tc.want {
			t.Errorf("%s: got%s\nwant%s", tc.name, got, tc.want)
		}
	}
}

// TestPlanWidths: whatever the names and the period, no line is too long, and the
// bars are as wide as they can be.
func TestPlanWidths(t *testing.T) {
	for _, width := range []int{60, 80, 100, 160, 200, 400} {
		for _, period := range []time.Duration{time.Minute, 23 * time.Hour, 24 * time.Hour, 25 * time.Hour, 7 * 24 * time.Hour, maxPlanPeriod} {
			for _, name := range []string{"x", strings.Repeat("name-", 50)} {
				for _, zone := range []string{"UTC", "America/Argentina/Buenos_Aires", "Asia/Kathmandu"} {
					p := planOf(t, "2026-11-26T12:34:56Z", period, workloadtest.Placed(name, name, workloadtest.Deployment(2147483647, "timezone="+zone)), workloadtest.Placed(name, "y", workloadtest.Deployment(1, "on=x")))
					text := p.table(screen{width: width})
					for line := range strings.Lines(text) {
						if n := utf8.RuneCountInString(line) - 1; n > width {
							t.Errorf("width %d, %v, %s: %d columns: %s", width, period, zone, n, line)
						}
					}
					if cells := strings.Count(text, "?") - 1; period == 24*time.Hour && cells < 24 {
						t.Errorf("width %d: %d cells for a day", width, cells)
					}
					if strings.Contains(text, "\x1b") {
						t.Errorf("colour where none was asked for: %q", text)
					}
				}
			}
		}
	}
}

// TestPlanBar draws 01:00 to 04:00, across clock changes and otherwise. The ruler
// and the bars of one plan have the same cells.
func TestPlanBar(t *testing.T) {
	for _, tc := range []struct {
		name, zone, from string
		period           time.Duration
		width            int
		ruler, bar       string
	}{
		{"a day", "Europe/Berlin", "2026-03-28T00:00:00+01:00", 24 * time.Hour, 24,
			"Sat   06:00 12:00 18:00",
			"█░░░████████████████████"},
		{"a day of 23 hours", "Europe/Berlin", "2026-03-29T00:00:00+01:00", 23 * time.Hour, 25,
			"Sun  06:00 12:00 18:00",
			"█░░████████████████████"},
		{"a day of 25 hours", "Europe/Berlin", "2026-10-25T00:00:00+02:00", 25 * time.Hour, 25,
			"Sun    06:00 12:00 18:00",
			"█░░░░████████████████████"},
		{"24 hours in it", "Europe/Berlin", "2026-10-25T00:00:00+02:00", 24 * time.Hour, 25,
			"Sun    06:00 12:00 18:00",
			"█░░░░███████████████████"},
		{"half an hour's change", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", 6 * time.Hour, 13,
			"Sun  03:00",
			"██░░░░░█████"},
		{"from within a cell", "Europe/Berlin", "2026-03-28T03:59:59+01:00", 5 * time.Hour, 6,
			"",
			"░█████"},
		{"an offset of 45 minutes", "Asia/Kathmandu", "2026-03-27T21:00:00Z", 3 * time.Hour, 20,
			"  03:00 04:00 05:00",
			"░░░░░░░░███████████"},
	} {
		zone, err := time.LoadLocation(tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		p := planOf(t, tc.from, tc.period, workloadtest.Deployment(3, "window=01:00-04:00", "timezone="+tc.zone))
		a := newAxis(p.from, p.to, zone, tc.width)
		if got := a.ruler(); got != tc.ruler {
			t.Errorf("%s: ruler\n%q, want\n%q", tc.name, got, tc.ruler)
		}
		if got := a.bar(&p.rows[0]); got != tc.bar {
			t.Errorf("%s: bar\n%q, want\n%q", tc.name, got, tc.bar)
		}
	}
}

// TestPlanScreen: a terminal is asked for its width, and coloured unless NO_COLOR.
func TestPlanScreen(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	columns := func(n string) {
		stty := exec.Command("stty", "cols", n)
		stty.Stdin = terminal
		if out, err := stty.CombinedOutput(); err != nil {
			t.Fatalf("stty: %v: %s", err, out)
		}
	}
	for _, tc := range []struct {
		out     io.Writer
		columns string
		env     string
		want    screen
	}{
		{&bytes.Buffer{}, "160", "", screen{width: 80}},
		{terminal, "160", "", screen{width: 160, colour: true}},
		{terminal, "160", "NO_COLOR=", screen{width: 160, colour: true}},
		{terminal, "160", "NO_COLOR=1", screen{width: 160}},
		{terminal, "60", "TERM=dumb", screen{width: 60}},
		{terminal, "0", "TERM=xterm", screen{width: 80, colour: true}},
	} {
		columns(tc.columns)
		name, value, _ := strings.Cut(tc.env, "=")
		if got := screenOf(tc.out, func(n string) string { return map[string]string{name: value}[n] }); got != tc.want {
			t.Errorf("%s columns, %s: %+v, want %+v", tc.columns, tc.env, got, tc.want)
		}
	}
}

// TestPlanNamespaces: without -n it is the context's, as with kubectl.
func TestPlanNamespaces(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","items":[]}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "a", "clusters": [{"name": "c", "cluster": {"server": %q}}],
"contexts": [{"name": "a", "context": {"cluster": "c", "namespace": "shop"}}, {"name": "b", "context": {"cluster": "c"}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, path, says string }{
		{"", "/namespaces/shop", " in namespace shop; -A looks at all"},
		{"--context b", "/namespaces/default", " in namespace default; -A looks at all"},
		{"-n other", "/namespaces/other", " in namespace other; -A looks at all"},
		{"-n other -A", "", ""},
	} {
		asked = nil
		stdout, stderr, exit := runPlan(t, "", strings.Fields("--kubeconfig "+kubeconfig+" "+tc.args)...)
		want := []string{"GET /apis/autoscaling/v2" + tc.path + "/horizontalpodautoscalers", "GET /apis/apps/v1" + tc.path + "/deployments"}
		if !slices.Equal(asked, want) || exit != 0 {
			t.Errorf("%q: exit %d, asked for %q, want %q; %s", tc.args, exit, asked, want, stderr)
		}
		if !strings.HasPrefix(stdout, "No managed Deployments"+tc.says+"\n") {
			t.Errorf("%q: %s", tc.args, stdout)
		}
	}
}

// TestPlanCluster reads page by page, and does nothing but read.
func TestPlanCluster(t *testing.T) {
	client := fake.NewClientset()
	pages := map[string]*appsv1.DeploymentList{
		"":  {ListMeta: metav1.ListMeta{Continue: "2"}, Items: []appsv1.Deployment{*workloadtest.Deployment(3), *workloadtest.Placed("kube-system", "dns", workloadtest.Deployment(3))}},
		"2": {Items: []appsv1.Deployment{*workloadtest.Placed("shop", "web", workloadtest.Deployment(3, "window=x"))}},
	}
	client.PrependReactor("list", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
		options := action.(k8stesting.ListActionImpl).ListOptions
		if options.Limit == 0 || options.LabelSelector != "app=web" {
			t.Errorf("asked for %+v", options)
		}
		return true, pages[options.Continue], nil
	})
	p := planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour)
	p.scope.Excluded = []string{"kube-system"}
	p.scope.Selector = labels.SelectorFromSet(labels.Set{"app": "web"})
	for _, page := range pages {
		for i := range page.Items {
			page.Items[i].Labels = map[string]string{"app": "web"}
		}
	}
	if err := p.addCluster(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	err := p.print("", &out, &errOut)
	if err == nil || !strings.HasPrefix(errOut.String(), `shop/web: schedule-night.svc/window "x": `) {
		t.Errorf("error %v, stderr %s", err, &errOut)
	}
	if got := out.String(); strings.Count(got, "default    web   awake ") != 1 || strings.Count(got, "shop       web   invalid ") != 1 || strings.Contains(got, "dns") {
		t.Errorf("printed\n%s", got)
	}
	for _, action := range client.Actions() {
		if action.GetVerb() != "list" {
			t.Errorf("did %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
	client.PrependReactor("list", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil)
	})
	if err := p.addCluster(t.Context(), client); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}

// TestPlanAutoscaler: a night count is not below the minimum of an autoscaler, wherever
// among the documents that stands.
func TestPlanAutoscaler(t *testing.T) {
	web := clitest.Manifest("shop/web", "on=true", "expected=5", "night-replicas=1")
	const hpa = `
---
apiVersion: %s
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: %s}
spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: %s, name: web}}
`
	for _, tc := range []struct {
		version, namespace, kind, flag string
		want                           int32
	}{
		{"autoscaling/v2", "shop", "Deployment", "--hpa-aware", 2},
		{"autoscaling/v1", "shop", "Deployment", "--hpa-aware", 2},
		{"autoscaling/v2", "shop", "StatefulSet", "--hpa-aware", 1},
		{"autoscaling/v2", "other", "Deployment", "--hpa-aware", 1},
		{"autoscaling/v2", "shop", "Deployment", "--hpa-aware=false", 1},
	} {
		stdout, stderr, exit := runPlan(t, web+fmt.Sprintf(hpa, tc.version, tc.namespace, tc.kind),
			"-f", "-", "-o", "json", "--from", "2026-11-27T12:00:00Z", "--for", "12h", tc.flag)
		var rows []outlook.Row
		if err := json.Unmarshal([]byte(stdout), &rows); err != nil || exit != 0 || stderr != "" || len(rows) != 1 || len(rows[0].Transitions) != 1 {
			t.Fatalf("%+v: %v, exit status %d, stderr %s\n%s", tc, err, exit, stderr, stdout)
		}
		if rows[0].NightReplicas != tc.want || rows[0].Transitions[0].Replicas != tc.want {
			t.Errorf("%+v: %+v", tc, rows[0])
		}
	}
}

// TestPlanSeveralAutoscalers: of several on one Deployment those count that count for the
// controller, in whatever order they are read.
func TestPlanSeveralAutoscalers(t *testing.T) {
	one, two, of := workloadtest.HPAFor("web", 1), workloadtest.HPAFor("web", 2), workloadtest.Deployment(3, "night-replicas=1")
	one.Name, two.Name = "one", "two"
	for _, order := range [][]*autoscalingv2.HorizontalPodAutoscaler{{one, two}, {two, one}} {
		p := planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour)
		for _, hpa := range order {
			if err := p.addAutoscaler(hpa.DeepCopy(), ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.add(of.DeepCopy(), ""); err != nil {
			t.Fatal(err)
		}
		if p.plan(); p.rows[0].NightReplicas != 2 {
			t.Errorf("%s first: %d replicas in the night, want 2", order[0].Name, p.rows[0].NightReplicas)
		}
	}
}

// TestPlanClusterAutoscalers: those of the cluster count as well, and it goes without
// where they must not be read.
func TestPlanClusterAutoscalers(t *testing.T) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scaler"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: ptr.To[int32](2), ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}},
	}
	client := fake.NewClientset(workloadtest.Deployment(3, "night-replicas=1"), hpa)
	atNight := func() (int32, string) {
		p := planOf(t, "2026-11-26T12:00:00Z", 24*time.Hour)
		if err := p.addCluster(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		if err := p.print("json", &out, &errOut); err != nil {
			t.Fatal(err)
		}
		return p.rows[0].NightReplicas, errOut.String()
	}
	if n, note := atNight(); n != 2 || note != "" {
		t.Errorf("%d replicas in the night, stderr %q", n, note)
	}
	client.PrependReactor("list", "horizontalpodautoscalers", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(autoscalingv2.Resource("horizontalpodautoscalers"), "", nil)
	})
	if n, note := atNight(); n != 1 || !strings.Contains(note, "forbidden") {
		t.Errorf("%d replicas in the night, stderr %q", n, note)
	}
}
