// Package install tests the ways to install: kubectl, kustomize and Helm make the same
// objects, the API server takes them, and one namespace's rights are enough.
package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"schedule-night/test/cluster"
)

const (
	deploy = "../../deploy"
	chart  = deploy + "/chart"
	// name is that of the namespace, the release and all objects.
	name = "schedule-night"
)

var (
	plane   *cluster.Cluster
	program = os.Getenv("SCHEDULE_NIGHT")
	helm    = os.Getenv("HELM")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if program == "" || helm == "" {
		fmt.Fprintln(os.Stderr, "SCHEDULE_NIGHT and HELM must name the programs; make test-e2e builds them and does so")
		return 1
	}
	dir, err := os.MkdirTemp("", "schedule-night-install-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if plane, err = cluster.Start(context.Background(), cluster.Options{Dir: dir, Log: os.Stderr, Storage: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer plane.Stop()
	if err := plane.StartPart(context.Background(), cluster.ControllerManager); err != nil { // fills the ClusterRole admin
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer plane.StopPart(cluster.ControllerManager)
	return m.Run()
}

// command runs a program and returns what it prints; input, unless empty, is its stdin.
func command(t *testing.T, input, path string, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	home := filepath.Dir(plane.Kubeconfig) // Helm's own files
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func mustCommand(t *testing.T, input, path string, args ...string) string {
	t.Helper()
	out, err := command(t, input, path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectl runs kubectl as the administrator.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return mustCommand(t, "", plane.Path(cluster.Kubectl), args...)
}

// kubectlInput is kubectl with a manifest for -f -.
func kubectlInput(t *testing.T, manifest string, args ...string) string {
	t.Helper()
	return mustCommand(t, manifest, plane.Path(cluster.Kubectl), args...)
}

func kustomize(t *testing.T, dir string) string {
	t.Helper()
	return kubectl(t, "kustomize", dir)
}

// template renders the chart as a release of the given name and namespace.
func template(t *testing.T, release, namespace string, args ...string) string {
	t.Helper()
	return mustCommand(t, "", helm, append([]string{"template", release, chart, "-n", namespace}, args...)...)
}

// files is what kubectl apply -f takes of a folder, as one manifest.
func files(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files in %s, error %v", len(names), dir, err)
	}
	var all []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(content))
	}
	return strings.Join(all, "\n---\n")
}

// objects are those of a manifest by kind, namespace and name.
type objects map[string]map[string]any

func parse(t *testing.T, manifest string) objects {
	t.Helper()
	set := objects{}
	decoder := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := decoder.Read()
		if err != nil {
			break // io.EOF: it reads from memory
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if object == nil {
			continue
		}
		u := unstructured.Unstructured{Object: object}
		key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if set[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		set[key] = object
	}
	if len(set) == 0 {
		t.Fatal("no objects")
	}
	return set
}

func (o objects) get(t *testing.T, key string) map[string]any {
	t.Helper()
	if o[key] == nil {
		t.Fatalf("no %s among %v", key, o.keys())
	}
	return o[key]
}

func (o objects) keys() []string {
	var keys []string
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// same complains about each difference.
func same(t *testing.T, got, want objects) {
	t.Helper()
	if !slices.Equal(got.keys(), want.keys()) {
		t.Errorf("objects\n%v, want\n%v", got.keys(), want.keys())
	}
	for key, object := range got {
		if want[key] != nil && !equality.Semantic.DeepEqual(object, want[key]) {
			a, _ := yaml.Marshal(object)
			b, _ := yaml.Marshal(want[key])
			t.Errorf("%s is\n%s\nand not\n%s", key, a, b)
		}
	}
}

// container is the program's in a Deployment.
func container(t *testing.T, deployment map[string]any) map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	if err != nil || len(list) != 1 {
		t.Fatalf("%d containers, error %v", len(list), err)
	}
	return list[0].(map[string]any)
}

// arguments are the program's in a Deployment, with $(NAMESPACE) as the kubelet
// would set it.
func arguments(t *testing.T, deployment map[string]any) []string {
	t.Helper()
	args, _, err := unstructured.NestedStringSlice(container(t, deployment), "args")
	if err != nil {
		t.Fatal(err)
	}
	namespace := (&unstructured.Unstructured{Object: deployment}).GetNamespace()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(NAMESPACE)", namespace)
	}
	return args
}

// TestKustomize: the bases are what kubectl apply -f takes.
func TestKustomize(t *testing.T) {
	for _, dir := range []string{deploy, deploy + "/extras"} {
		want := parse(t, files(t, dir))
		withoutAnnotationsPolicy(want)
		same(t, parse(t, kustomize(t, dir)), want)
	}
}

// withoutAnnotationsPolicy leaves out what only kubectl applies: there is one of it for a
// cluster, however many installations that has, and kustomize breaks its lines anew.
func withoutAnnotationsPolicy(o objects) {
	delete(o, "ValidatingAdmissionPolicy /schedule-night-annotations")
	delete(o, "ValidatingAdmissionPolicyBinding /schedule-night-annotations")
}

// helmLabels are what the chart adds to the labels of deploy/.
var helmLabels = []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"}

// TestChartDefaults: without values the chart makes the objects of deploy/ and
// deploy/extras. It has labels more; the Namespace is left to --create-namespace; and
// its policy, which knows the namespace, names it.
func TestChartDefaults(t *testing.T) {
	got := parse(t, template(t, name, name, "--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true"))
	for key, object := range got {
		labels, _, _ := unstructured.NestedMap(object, "metadata", "labels")
		for _, label := range helmLabels {
			if labels[label] == nil {
				t.Errorf("%s has no label %s", key, label)
			}
			unstructured.RemoveNestedField(object, "metadata", "labels", label)
		}
	}
	want := parse(t, files(t, deploy)+"\n---\n"+files(t, deploy+"/extras"))
	delete(want, "Namespace /"+name)
	withoutAnnotationsPolicy(want)

	const policy = "ValidatingAdmissionPolicy /schedule-night-status"
	for _, p := range []struct {
		objects    objects
		expression string
	}{
		{got, `request.userInfo.username == "system:serviceaccount:schedule-night:schedule-night"`},
		{want, `request.userInfo.username.matches("^system:serviceaccount:[^:]+:schedule-night$")`},
	} {
		object := p.objects.get(t, policy)
		conditions, _, _ := unstructured.NestedSlice(object, "spec", "matchConditions")
		if len(conditions) != 1 || conditions[0].(map[string]any)["expression"] != p.expression {
			t.Errorf("the policy is about %v, want %s", conditions, p.expression)
		}
		unstructured.RemoveNestedField(object, "spec", "matchConditions")
	}
	same(t, got, want)
}

// TestChartAlerts: the chart's copy is that of deploy/extras, and speaks of its own
// release's names.
func TestChartAlerts(t *testing.T) {
	original, err := os.ReadFile(deploy + "/extras/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(chart + "/files/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(original, copied) {
		t.Error("not equal: cp deploy/extras/prometheusrule.yaml deploy/chart/files/")
	}
	rule, err := json.Marshal(parse(t, template(t, "night", "tools", "--set", "prometheusRule.enabled=true")).get(t, "PrometheusRule tools/night-schedule-night"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`name=\"night-schedule-night\"`, `job=\"night-schedule-night\"`, "the namespace tools and"} {
		if !strings.Contains(string(rule), want) {
			t.Errorf("no %s in %s", want, rule)
		}
	}
	if strings.Contains(string(rule), `=\"schedule-night\"`) {
		t.Errorf("it is about the name schedule-night: %s", rule)
	}
}

// TestChartNames: nothing keeps the default's name in a release of another.
func TestChartNames(t *testing.T) {
	for _, c := range []struct {
		release, namespace, set, want, account string
	}{
		{"night", "tools", "", "night-schedule-night", "night-schedule-night"},
		{"my-schedule-night", "tools", "", "my-schedule-night", "my-schedule-night"},
		{"night", "tools", "fullnameOverride=owl", "owl", "owl"},
		{"night", "tools", "fullnameOverride=owl,serviceAccount.name=barn", "owl", "barn"},
		{"night", "tools", "fullnameOverride=owl,serviceAccount.create=false", "owl", "default"},
		{"night", "tools", "fullnameOverride=owl,scope.namespace=shop", "owl", "owl"},
		{strings.Repeat("n", 52), "tools", "", strings.Repeat("n", 52), strings.Repeat("n", 52)},
	} {
		set := parse(t, template(t, c.release, c.namespace, "--set", c.set))
		d := set.get(t, "Deployment tools/"+c.want)
		if account, _, _ := unstructured.NestedString(d, "spec", "template", "spec", "serviceAccountName"); account != c.account {
			t.Errorf("%v: the Pods' ServiceAccount is %q", c, account)
		}
		if args := arguments(t, d); !slices.Contains(args, "--leader-elect-resource-name="+c.want) {
			t.Errorf("%v: the Lease's name is not in %q", c, args)
		}
		rules, _, _ := unstructured.NestedSlice(set.get(t, "Role tools/"+c.want+"-lease"), "rules")
		if names := rules[1].(map[string]any)["resourceNames"]; !reflect.DeepEqual(names, []any{c.want}) {
			t.Errorf("%v: the right is to the Lease %v", c, names)
		}
		for key, object := range set {
			subjects, _, _ := unstructured.NestedSlice(object, "subjects")
			if len(subjects) > 0 && !reflect.DeepEqual(subjects[0], map[string]any{"kind": "ServiceAccount", "namespace": c.namespace, "name": c.account}) {
				t.Errorf("%v: %s is for %v", c, key, subjects)
			}
		}
		policy := c.want + "-status"
		if strings.Contains(c.set, "scope") {
			policy = c.want + "-tools-status"
		}
		conditions, _, _ := unstructured.NestedSlice(set.get(t, "ValidatingAdmissionPolicy /"+policy), "spec", "matchConditions")
		if want := fmt.Sprintf("request.userInfo.username == %q", "system:serviceaccount:tools:"+c.account); conditions[0].(map[string]any)["expression"] != want {
			t.Errorf("%v: the policy is about %v", c, conditions)
		}
	}
}
