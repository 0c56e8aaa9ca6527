package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"schedule-night/test/cluster"
)

// live is an object as the API server has it.
func live(t *testing.T, args ...string) unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(kubectl(t, append([]string{"get", "-o", "json"}, args...)...))); err != nil {
		t.Fatal(err)
	}
	return u
}

// left are the objects of the program that the API server has, but Namespaces. It asks
// for those of addMonitoring as well.
func left(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "-A", "-o", "name", "-l", "app.kubernetes.io/name=schedule-night",
		"serviceaccounts,services,deployments,roles,rolebindings,clusterroles,clusterrolebindings,networkpolicies,poddisruptionbudgets,validatingadmissionpolicies,validatingadmissionpolicybindings,servicemonitors,prometheusrules")
}

// addMonitoring has the API server know ServiceMonitors and PrometheusRules, from
// now on.
func addMonitoring(t *testing.T) {
	t.Helper()
	kubectl(t, "apply", "-f", "testdata/monitoring-crds.yaml")
	kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
}

// TestApply installs in each way, changes over from one to another, and uninstalls.
func TestApply(t *testing.T) {
	addMonitoring(t)

	kubectl(t, "apply", "--validate=strict", "-f", deploy)
	kubectl(t, "diff", "-k", deploy) // fails where there is a difference
	plain := live(t, "deployment", "-n", name, name)

	kubectl(t, "apply", "--validate=strict", "--server-side", "--force-conflicts", "-k", deploy)

	// The chart takes over what kubectl made, and no Pod is replaced.
	notes := mustCommand(t, "", helm, "install", name, chart, "-n", name, "--take-ownership", "--force-conflicts")
	if !strings.Contains(notes, "kubectl annotate deployment web schedule-night.svc/on=true schedule-night.svc/expected=3") || !strings.Contains(notes, "schedule-night release -A") {
		t.Errorf("the notes:\n%s", notes)
	}
	taken := live(t, "deployment", "-n", name, name)
	if taken.GetUID() != plain.GetUID() || !equality.Semantic.DeepEqual(taken.Object["spec"], plain.Object["spec"]) {
		t.Errorf("the Deployment was replaced or changed: from %v to %v", plain.Object["spec"], taken.Object["spec"])
	}
	mustCommand(t, "", helm, "upgrade", name, chart, "-n", name, "--reset-then-reuse-values", "--force-conflicts", "--set", "replicas=3,flags.timezone=Europe/Berlin,serviceMonitor.enabled=true,prometheusRule.enabled=true")
	upgraded := live(t, "deployment", "-n", name, name)
	if replicas, _, _ := unstructured.NestedInt64(upgraded.Object, "spec", "replicas"); replicas != 3 {
		t.Errorf("%d replicas after the upgrade", replicas)
	}
	if args := arguments(t, upgraded.Object); len(args) != 1 || args[0] != "--timezone=Europe/Berlin" {
		t.Errorf("arguments %q after the upgrade", args)
	}
	mustCommand(t, "", helm, "uninstall", name, "-n", name)
	if out := left(t); out != "" {
		t.Errorf("left by helm uninstall:\n%s", out)
	}

	// An overlay: another namespace and image, flags, extras.
	const overlay = "../../examples/kustomize/platform"
	kubectl(t, "apply", "--validate=strict", "--server-side", "-k", overlay)
	d := live(t, "deployment", "-n", "platform", name)
	if image := container(t, d.Object)["image"]; image != "registry.example.com/platform/schedule-night:v1.0.0" {
		t.Errorf("the image is %v", image)
	}
	if args := arguments(t, d.Object); len(args) != 3 {
		t.Errorf("the arguments are %q", args)
	}
	checkArguments(t, arguments(t, d.Object))
	binding := live(t, "clusterrolebinding", name)
	if subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects"); subjects[0].(map[string]any)["namespace"] != "platform" {
		t.Errorf("the rights are for %v", subjects)
	}
	makeDeployment(t, "platform")
	checkPolicy(t, accountKubeconfig(t, "platform", name), "platform")
	kubectl(t, "delete", "--wait=false", "-k", overlay)
	if out := left(t); out != "" {
		t.Errorf("left by kubectl delete -k:\n%s", out)
	}

	for _, values := range []string{"everything", "least"} {
		manifest := template(t, "night", "default", "-f", "testdata/"+values+".yaml", "--set", "scope.namespace=default,flags.leader-elect-resource-namespace=kube-public")
		kubectlInput(t, manifest, "apply", "--dry-run=server", "--validate=strict", "--server-side", "-f", "-")
	}
}

// checkArguments has the program check them: it then looks for a kubeconfig that is not
// there.
func checkArguments(t *testing.T, args []string) {
	t.Helper()
	_, err := command(t, "", program, append(args, "--kubeconfig=testdata/no-such-file")...)
	if err == nil || !strings.Contains(err.Error(), "no-such-file: no such file") {
		t.Errorf("%q: %v", args, err)
	}
}

// stealStatus does with a ServiceAccount's token what the right to patch
// deployments/status is wide enough for.
func stealStatus(t *testing.T, kubeconfig, namespace string) error {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"stolen":"%d"}}}`, time.Now().UnixNano()) // a change, each time
	_, err = client.AppsV1().Deployments(namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// checkPolicy waits until the admission policy holds for the ServiceAccount: the API
// server takes up a new one within a second or so, and tells nobody.
func checkPolicy(t *testing.T, kubeconfig, namespace string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		err := stealStatus(t, kubeconfig, namespace)
		if err != nil && !strings.Contains(err.Error(), "may not change a Deployment's metadata") {
			return false, err
		}
		return err != nil, nil
	})
	if err != nil {
		t.Errorf("the policy does not hold in %s: %v", namespace, err)
	}
}

func accountKubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	kubeconfig, err := plane.ServiceAccountKubeconfig(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// makeDeployment makes web, which sleeps all day if anybody looks after it.
func makeDeployment(t *testing.T, namespace string) {
	t.Helper()
	kubectlInput(t, `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: `+namespace+`
  annotations:
    schedule-night.svc/on: "true"
    schedule-night.svc/expected: "3"
    schedule-night.svc/window: 00:00-24:00
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "example.com/app:1"}]}
`, "create", "-f", "-")
}

// TestTenantOverlay: a namespace's administrator who may also patch deployments/status
// installs the overlay without any right of the cluster, and it works.
func TestTenantOverlay(t *testing.T) {
	const overlay = "../../examples/kustomize/tenant"
	addMonitoring(t)
	kubectl(t, "create", "namespace", "shop")
	kubectl(t, "wait", "clusterrole", "admin", "--for=jsonpath={.rules[0]}", "--timeout=60s")
	kubectl(t, "create", "rolebinding", "-n", "shop", "tenant", "--clusterrole=admin", "--user=tenant")
	apply := []string{"apply", "--as=tenant", "--validate=strict", "-k", overlay}
	if out, err := command(t, "", plane.Path(cluster.Kubectl), apply...); err == nil || strings.Count(err.Error(), "attempting to grant RBAC permissions not currently held") != 1 || !strings.Contains(err.Error(), `Resources:["deployments/status"], Verbs:["patch"]`) {
		t.Errorf("the ClusterRole admin alone: %v %s", err, out)
	}
	kubectl(t, "create", "role", "-n", "shop", "deployment-status", "--verb=patch", "--resource=deployments/status")
	kubectl(t, "create", "rolebinding", "-n", "shop", "deployment-status", "--role=deployment-status", "--user=tenant")
	kubectl(t, apply...)

	args := arguments(t, live(t, "deployment", "-n", "shop", name).Object)
	kubeconfig := checkScope(t, "shop", "shop", name, args)
	if err := stealStatus(t, kubeconfig, "shop"); err != nil {
		t.Errorf("without the policy metadata can be changed, says docs/install.md: %v", err)
	}
	// What an administrator applies later holds for the tenant's controller.
	kubectl(t, "apply", "-f", deploy+"/20-admission-policy.yaml")
	checkPolicy(t, kubeconfig, "shop")
	kubectl(t, "delete", "-f", deploy+"/20-admission-policy.yaml")
	kubectl(t, "delete", "--as=tenant", "-k", overlay)
	if out := left(t); out != "" {
		t.Errorf("left by kubectl delete -k:\n%s", out)
	}
}

// TestChartScope: with scope.namespace the release may be in another namespace than the
// Deployments; its Lease is in its own.
func TestChartScope(t *testing.T) {
	kubectl(t, "create", "namespace", "store")
	notes := mustCommand(t, "", helm, "install", "night", chart, "-n", "tools", "--create-namespace", "--set", "scope.namespace=store")
	if !strings.Contains(notes, "kubectl annotate -n store deployment web") || !strings.Contains(notes, "schedule-night release -n store") {
		t.Errorf("the notes:\n%s", notes)
	}
	const account = "night-schedule-night"
	kubeconfig := checkScope(t, "tools", "store", account, arguments(t, live(t, "deployment", "-n", "tools", account).Object))
	kubectl(t, "get", "lease", "-n", "tools", account)
	checkPolicy(t, kubeconfig, "store")
	mustCommand(t, "", helm, "uninstall", "night", "-n", "tools")
}

// checkScope runs the program with the ServiceAccount's token. In the watched namespace a
// Deployment goes to sleep, in others nothing is touched or asked for, and the account
// holds no right but in its namespaces. It returns the account's kubeconfig.
func checkScope(t *testing.T, namespace, watched, account string, args []string) string {
	t.Helper()
	kubeconfig := accountKubeconfig(t, namespace, account)
	other := watched + "-other"
	kubectl(t, "create", "namespace", other)
	makeDeployment(t, other)
	makeDeployment(t, watched)

	var output bytes.Buffer
	cmd := exec.Command(program, append(args, "--kubeconfig="+kubeconfig, "--listen-address=127.0.0.1:0")...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err := command(t, "", plane.Path(cluster.Kubectl), "wait", "-n", watched, "deployment/web", "--for=condition=schedule-night.svc/Asleep", "--timeout=60s")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
	if log := output.String(); err != nil || !strings.Contains(log, "Stopped") || strings.Contains(log, "Not allowed") || strings.Contains(log, "forbidden") {
		t.Errorf("%v; the program's log:\n%s", err, log)
	}
	for ns, want := range map[string]int64{watched: 0, other: 3} {
		d := live(t, "deployment", "-n", ns, "web")
		if replicas, found, err := unstructured.NestedInt64(d.Object, "spec", "replicas"); replicas != want || !found || err != nil {
			t.Errorf("%s/web has %d replicas, want %d; error %v", ns, replicas, want, err)
		}
	}
	if out := kubectl(t, "get", "events", "-n", watched, "-o", "jsonpath={.items[*].reason}"); !strings.Contains(out, "ScaledDown") {
		t.Errorf("events %q", out)
	}

	user := "system:serviceaccount:" + namespace + ":" + account
	checkRequests(t, user, namespace, watched)
	rules := func(user, ns string) string {
		return kubectl(t, "auth", "can-i", "--list", "--as="+user, "-n", ns, "--no-headers")
	}
	nobody := "system:serviceaccount:" + namespace + ":nobody"
	if got, want := rules(user, other), rules(nobody, other); got != want {
		t.Errorf("in another namespace it may\n%s\nand every ServiceAccount\n%s", got, want)
	}
	if rules(user, watched) == rules(nobody, watched) {
		t.Error("it may do no more than every ServiceAccount")
	}
	for _, verb := range []string{"get", "list", "watch"} {
		review, err := plane.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: verb},
		}}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			t.Errorf("it may %s Deployments of all namespaces: %v", verb, err)
		}
	}
	if out := kubectl(t, "get", "clusterrolebindings", "-o", "yaml"); strings.Contains(out, "name: "+account+"\n") {
		t.Error("there is a ClusterRoleBinding for it")
	}
	return kubeconfig
}

// checkRequests: by the audit log the user's requests were allowed, and about its
// namespaces alone.
func checkRequests(t *testing.T, user, namespace, watched string) {
	t.Helper()
	file, err := os.Open(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r struct {
			RequestURI string
			User       struct{ Username string }
			Ref        struct{ Resource, Namespace string } `json:"objectRef"`
			Code       struct{ Code int }                   `json:"responseStatus"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if r.User.Username != user {
			continue
		}
		found++
		if r.Code.Code == 403 || r.Ref.Namespace != namespace && r.Ref.Namespace != watched && r.Ref.Resource != "selfsubjectreviews" {
			t.Errorf("it asked for %s and got %d", r.RequestURI, r.Code.Code)
		}
	}
	if err := lines.Err(); err != nil || found < 5 {
		t.Errorf("%d requests in the audit log, error %v", found, err)
	}
}
