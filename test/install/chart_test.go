package install

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// programFlags are the flags that the controller has, by its own help.
func programFlags(t *testing.T) []string {
	t.Helper()
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(mustCommand(t, "", program, "--help"), -1) {
		flags = append(flags, m[1])
	}
	if len(flags) < 20 {
		t.Fatalf("only the flags %q in the help", flags)
	}
	slices.Sort(flags)
	return flags
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestChartFlags: the chart can set every flag that the program has, and no other, and
// the program takes what the chart makes of them.
func TestChartFlags(t *testing.T) {
	want := slices.DeleteFunc(programFlags(t), func(flag string) bool { return flag == "namespace" }) // scope.namespace

	var values struct{ Flags map[string]any }
	readYAML(t, chart+"/values.yaml", &values)
	if got := sortedKeys(values.Flags); !slices.Equal(got, want) {
		t.Errorf("values.yaml has the flags\n%q, the program\n%q", got, want)
	}
	var schema struct {
		Properties struct {
			Flags struct{ Properties map[string]any }
		}
	}
	readYAML(t, chart+"/values.schema.json", &schema)
	if got := sortedKeys(schema.Properties.Flags.Properties); !slices.Equal(got, want) {
		t.Errorf("the schema has the flags\n%q, the program\n%q", got, want)
	}
	values.Flags = nil
	readYAML(t, "testdata/everything.yaml", &values)
	if got := sortedKeys(values.Flags); !slices.Equal(got, want) {
		t.Errorf("everything.yaml has the flags\n%q, the program\n%q", got, want)
	}

	args := arguments(t, parse(t, template(t, name, name, "-f", "testdata/everything.yaml")).get(t, "Deployment "+name+"/night"))
	var got []string
	for _, arg := range args[:len(args)-1] { // the last is from extraArgs
		flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		got = append(got, flag)
	}
	slices.Sort(got)
	if !slices.Equal(got, programFlags(t)) {
		t.Errorf("the Deployment has %q", args)
	}
	for _, want := range []string{"--namespace=shop", "--kube-api-burst=1000000", "--night-replicas=2147483647", "--kube-api-qps=0.5", "--exclude-namespaces=kube-system,platform", "--status-page=false"} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %q", want, args)
		}
	}
	// The program gets as far as the kubeconfig, which is not there.
	if _, err := command(t, "", program, args...); err == nil || !strings.Contains(err.Error(), "reading the kubeconfig: ") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("the program says %v", err)
	}
}

// TestChartValues: each value is where it belongs.
func TestChartValues(t *testing.T) {
	set := parse(t, template(t, name, "tools", "-f", "testdata/everything.yaml"))
	text := func(key string) string {
		content, err := json.Marshal(set.get(t, key))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for key, wants := range map[string][]string{
		"Deployment tools/night": {
			`"replicas":3`, `"image":"registry.example.com/schedule-night@sha256:0123`, `"imagePullPolicy":"Always"`, `"imagePullSecrets":[{"name":"registry"}]`,
			`"--v=2"]`, `{"name":"GOGC","value":"100"}`, `"volumes":[{"name":"kubeconfig"`, `"volumeMounts":[{"mountPath":"/etc/schedule-night"`,
			`"serviceAccountName":"owl"`, `"containerPort":9090`, `"resources":{"limits":{"cpu":"1","memory":"256Mi"},"requests":{"cpu":"10m","memory":"64Mi"}}`,
			`"example.com/team":"platform"`, `"example.com/owner":"platform"`, `"example.com/scrape":"true"`, `"example.com/zone":"a"`,
			`"priorityClassName":"system-cluster-critical"`, `"nodeSelector":{"kubernetes.io/os":"linux"}`, `"podAntiAffinity"`, `"tolerations":[{`,
			`{"labelSelector":{"matchLabels":{"app.kubernetes.io/name":"night"}},"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone"`,
			`{"labelSelector":{"matchLabels":{"a":"b"}},"maxSkew":2`,
			`"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`,
		},
		"ServiceAccount tools/owl":                             {`"annotations":{"example.com/role":"owl"}`},
		"Role shop/night":                                      {`["deployments/scale"]`},
		"RoleBinding shop/night":                               {`"kind":"Role"`, `"namespace":"tools"`},
		"Role leases/night-lease":                              {`"resourceNames":["night-shift"]`},
		"RoleBinding leases/night-lease":                       {`"namespace":"tools"`},
		"NetworkPolicy tools/night":                            {`"from":[{"namespaceSelector"`, `"egress":[{"ports":[{"port":8443},{"port":53,"protocol":"UDP"},{"port":53}]}]`},
		"ServiceMonitor tools/night":                           {`"interval":"15s"`, `"release":"prometheus"`},
		"PrometheusRule tools/night":                           {`"release":"prometheus"`, `name=\"night-shift\"`},
		"PodDisruptionBudget tools/night":                      {`"maxUnavailable":1`},
		"Service tools/night":                                  {`"targetPort":"http"`},
		"ValidatingAdmissionPolicyBinding /night-tools-status": {`"policyName":"night-tools-status"`},
	} {
		for _, want := range wants {
			if got := text(key); !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", key, want, got)
			}
		}
	}
	if strings.Contains(text("Role shop/night"), "horizontalpodautoscalers") {
		t.Error("a right to autoscalers, without --hpa-aware")
	}
	if len(set) != 13 {
		t.Errorf("%d objects: %q", len(set), set.keys())
	}
	for key := range set {
		if strings.HasPrefix(key, "Cluster") {
			t.Errorf("%s, with a scope", key)
		}
	}

	set = parse(t, template(t, name, name, "-f", "testdata/least.yaml"))
	if got := set.keys(); len(got) != 1 {
		t.Errorf("of the least there is %q", got)
	}
	c := container(t, set.get(t, "Deployment "+name+"/"+name))
	if c["image"] != "schedule-night:v1.2.3" || c["livenessProbe"] != nil || c["ports"] != nil {
		t.Errorf("the container is %v", c)
	}
	if account, _, _ := unstructured.NestedString(set.get(t, "Deployment "+name+"/"+name), "spec", "template", "spec", "serviceAccountName"); account != "default" {
		t.Errorf("the ServiceAccount is %q", account)
	}
}

// TestChartLint: Helm finds nothing wrong.
func TestChartLint(t *testing.T) {
	for _, args := range [][]string{{}, {"-f", "testdata/everything.yaml"}, {"-f", "testdata/least.yaml"}} {
		out := mustCommand(t, "", helm, append([]string{"lint", "--strict", chart}, args...)...)
		if !strings.Contains(out, "1 chart(s) linted, 0 chart(s) failed") || strings.Contains(out, "[WARNING]") {
			t.Error(out)
		}
	}
}

// TestChartPackage: a packaged chart takes its image's tag from its own version.
func TestChartPackage(t *testing.T) {
	dir := t.TempDir()
	mustCommand(t, "", helm, "package", chart, "--version", "1.2.3", "--app-version", "v1.2.3", "-d", dir)
	manifest := mustCommand(t, "", helm, "template", name, dir+"/schedule-night-1.2.3.tgz", "-n", name, "--set", "prometheusRule.enabled=true")
	set := parse(t, manifest)
	if image := container(t, set.get(t, "Deployment "+name+"/"+name))["image"]; image != "schedule-night:v1.2.3" {
		t.Errorf("the image is %v", image)
	}
	if groups, _, _ := unstructured.NestedSlice(set.get(t, "PrometheusRule "+name+"/"+name), "spec", "groups"); len(groups) != 1 {
		t.Errorf("%d groups of alerts", len(groups))
	}
}

// TestChartSchema: values that are not right are refused by their names.
func TestChartSchema(t *testing.T) {
	rows := []struct{ set, want string }{
		{`replicas="two"`, "/replicas"},
		{`replicas=-1`, "/replicas"},
		{`replicaCount=3`, "'replicaCount'"},
		{`image.repository=""`, "/image/repository"},
		{`image.tag=1.2`, "/image/tag"},
		{`image.digest="latest"`, "/image/digest"},
		{`image.pullPolicy="Sometimes"`, "/image/pullPolicy"},
		{`image.pullSecrets=["registry"]`, "/image/pullSecrets/0"},
		{`scope.namespace="Shop"`, "/scope/namespace"},
		{`scope.namespaces=["shop"]`, "'namespaces'"},
		{`flags.windw="21:00-07:00"`, "'windw'"},
		{`flags.namespace="shop"`, "'namespace'"},
		{`flags.window=""`, "/flags/window"},
		{`flags.night-replicas=-1`, "/flags/night-replicas"},
		{`flags.night-replicas=0.5`, "/flags/night-replicas"},
		{`flags.wake-stagger=600`, "/flags/wake-stagger"},
		{`flags.wake-stagger="10 minutes"`, "/flags/wake-stagger"},
		{`flags.exclude-namespaces="kube-system"`, "/flags/exclude-namespaces"},
		{`flags.kube-api-qps=0`, "/flags/kube-api-qps"},
		{`flags.workers=0`, "/flags/workers"},
		{`flags.hpa-aware="yes"`, "/flags/hpa-aware"},
		{`flags.listen-address="8080"`, "/flags/listen-address"},
		{`flags.logging-format="xml"`, "/flags/logging-format"},
		{`extraArgs="-v=4"`, "/extraArgs"},
		{`admissionPolicy=false`, "/admissionPolicy"},
		{`networkPolicy.apiServerPorts=[]`, "/networkPolicy/apiServerPorts"},
		{`podLabels.a=1`, "/podLabels/a"},
		{`serviceMonitor.interval="often"`, "/serviceMonitor/interval"},
	}
	// Helm tells all that is wrong at once: a run for as many rows as do not meet.
	for len(rows) > 0 {
		args := []string{"template", name, chart}
		taken := map[string]bool{}
		later, now := rows[:0:0], rows[:0:0]
		for _, row := range rows {
			key, _, _ := strings.Cut(row.set, "=")
			if taken[key] {
				later = append(later, row)
				continue
			}
			taken[key] = true
			now = append(now, row)
			args = append(args, "--set-json", row.set)
		}
		_, err := command(t, "", helm, args...)
		if err == nil {
			t.Fatalf("taken: %q", args)
		}
		_, complaints, _ := strings.Cut(err.Error(), "specifications of the schema")
		for _, row := range now {
			if !strings.Contains(complaints, row.want) {
				t.Errorf("%s: no complaint about %s in %s", row.set, row.want, complaints)
			}
		}
		rows = later
	}
	for _, version := range []string{"1.29.9", "1.30.0", "1.30.4-gke.100"} {
		_, err := command(t, "", helm, "template", name, chart, "--kube-version", version)
		if old := version == "1.29.9"; old != (err != nil) {
			t.Errorf("Kubernetes %s: %v", version, err)
		}
	}
}
