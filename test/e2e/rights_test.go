package e2e

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// thief is a client with the controller's own token.
func thief(t *testing.T) (*kubernetes.Clientset, *rest.Config) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config
}

// TestRights shows what a stolen token can do: change counts, and that is all.
func TestRights(t *testing.T) {
	ns := makeNamespace(t)
	d := makeDeployment(t, ns, "web", 1)
	client, config := thief(t)
	ctx := t.Context()
	deployments := client.AppsV1().Deployments(ns)

	patchStatus := func(body string) error {
		_, err := deployments.Patch(ctx, d.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{FieldManager: account}, "status")
		return err
	}
	ourCondition := `{"status":{"conditions":[{"type":"` + condition + `","status":"False","reason":"DayWindow","message":"m"}]}}`
	for name, err := range map[string]error{
		"scaling": func() error {
			_, err := deployments.UpdateScale(ctx, d.Name, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: ns}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{})
			return err
		}(),
		"our condition": patchStatus(ourCondition),
		"reading every Deployment": func() error {
			_, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
			return err
		}(),
		"an event": func() error {
			_, err := client.CoreV1().Events(ns).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: ns}, InvolvedObject: corev1.ObjectReference{Namespace: ns}}, metav1.CreateOptions{})
			return err
		}(),
		// These are accepted, and have no effect.
		"that nobody owns a field": patchStatus(`{"metadata":{"managedFields":[{}]}}`),
		"that its owner owns less": patchStatus(`{"metadata":{"managedFields":[{"manager":"` + d.ManagedFields[0].Manager +
			`","operation":"Update","apiVersion":"apps/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:paused":{}}}}]}}`),
		"metadata through the scale": func() error {
			_, err := deployments.UpdateScale(ctx, d.Name, &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{
					Name: d.Name, Namespace: ns, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
					Finalizers: []string{"example.com/x"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "0"}},
				},
				Spec: autoscalingv1.ScaleSpec{Replicas: 2},
			}, metav1.UpdateOptions{})
			return err
		}(),
		"a label and an image through the status": patchStatus(
			`{"metadata":{"labels":{"a":"b"}},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/evil:1"}]}}}}`),
	} {
		if err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}

	owner, err := json.Marshal([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"updating the Deployment": func() error { _, err := deployments.Update(ctx, d, metav1.UpdateOptions{}); return err }(),
		"patching the Deployment": func() error {
			_, err := deployments.Patch(ctx, d.Name, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
			return err
		}(),
		"applying the Deployment": func() error {
			_, err := deployments.Patch(ctx, d.Name, types.ApplyYAMLPatchType, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`), metav1.PatchOptions{FieldManager: "x"})
			return err
		}(),
		"making a Deployment":              func() error { _, err := deployments.Create(ctx, d, metav1.CreateOptions{}); return err }(),
		"deleting the Deployment":          deployments.Delete(ctx, d.Name, metav1.DeleteOptions{}),
		"deleting all":                     deployments.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		"updating the status":              func() error { _, err := deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}); return err }(),
		"an annotation through the status": patchStatus(`{"metadata":{"annotations":{"a":"b"}}}`),
		"a finalizer through the status":   patchStatus(`{"metadata":{"finalizers":["example.com/x"]}}`),
		"an owner through the status":      patchStatus(`{"metadata":{"ownerReferences":` + string(owner) + `}}`),
		"another condition":                patchStatus(`{"status":{"conditions":[{"type":"Available","status":"Unknown"}]}}`),
		"a condition more":                 patchStatus(`{"status":{"conditions":[{"type":"Fancy","status":"True"}]}}`),
		"a count of the status":            patchStatus(`{"status":{"unavailableReplicas":9}}`),
		"the observed generation":          patchStatus(`{"status":{"observedGeneration":99}}`),
		"our condition and an annotation": patchStatus(
			`{"metadata":{"annotations":{"a":"b"}},` + strings.TrimPrefix(ourCondition, "{")),
		"reading secrets": func() error { _, err := client.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); return err }(),
		"reading Pods":    func() error { _, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); return err }(),
		"reading events":  func() error { _, err := client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{}); return err }(),
		"reading ConfigMaps": func() error {
			_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
			return err
		}(),
		"making a Pod": func() error {
			_, err := client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
			return err
		}(),
		"a token for itself": func() error {
			_, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, nil, metav1.CreateOptions{})
			return err
		}(),
		"a command in a Pod": client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource("exec").
			Param("command", "sh").Do(ctx).Error(),
		"reading a Pod's log": func() error {
			_, err := client.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{}).DoRaw(ctx)
			return err
		}(),
		"listing namespaces": func() error { _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); return err }(),
		"listing nodes":      func() error { _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err }(),
		"acting as an administrator": func() error {
			config := *config
			config.Impersonate.UserName = "admin"
			config.Impersonate.Groups = []string{"system:masters"}
			_, err := kubernetes.NewForConfigOrDie(&config).CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
			return err
		}(),
		"granting itself more": func() error {
			_, err := client.RbacV1().ClusterRoles().Patch(ctx, account, types.MergePatchType, []byte(`{"rules":[]}`), metav1.PatchOptions{})
			return err
		}(),
		"lifting the admission policy": client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "schedule-night-status", metav1.DeleteOptions{}),
		"scaling a ReplicaSet": func() error {
			_, err := client.AppsV1().ReplicaSets(ns).UpdateScale(ctx, "x", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: ns}}, metav1.UpdateOptions{})
			return err
		}(),
		"scaling a StatefulSet": func() error {
			_, err := client.AppsV1().StatefulSets(ns).UpdateScale(ctx, "x", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: ns}}, metav1.UpdateOptions{})
			return err
		}(),
		"reading another Lease": func() error {
			_, err := client.CoordinationV1().Leases("kube-node-lease").Get(ctx, "node-0", metav1.GetOptions{})
			return err
		}(),
		"reading a Lease beside its own": func() error {
			_, err := client.CoordinationV1().Leases(namespace).Get(ctx, "other", metav1.GetOptions{})
			return err
		}(),
		"deleting its Lease": client.CoordinationV1().Leases(namespace).Delete(ctx, "schedule-night", metav1.DeleteOptions{}),
		"changing an HPA": func() error {
			_, err := client.AutoscalingV2().HorizontalPodAutoscalers(ns).Patch(ctx, "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		}(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s is not forbidden: %v", name, err)
		}
	}
	live, err := plane.Client.AppsV1().Deployments(ns).Get(ctx, d.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == d.ManagedFields[0].Manager && e.Subresource == ""
	}); i < 0 || !bytes.Contains(live.ManagedFields[i].FieldsV1.GetRawBytes(), []byte(`"f:template"`)) {
		t.Errorf("who owns which field has changed: %v", live.ManagedFields)
	}
	if *live.Spec.Replicas != 2 || len(live.OwnerReferences)+len(live.Finalizers) > 0 || live.Annotations["a"]+live.Labels["a"] != "" ||
		live.Spec.Template.Spec.Containers[0].Image != d.Spec.Template.Spec.Containers[0].Image || live.Status.ObservedGeneration == 99 {
		t.Errorf("the Deployment is now %+v", live)
	}

	// The policy is about our ServiceAccount alone.
	if _, err := plane.Client.AppsV1().Deployments(ns).Patch(ctx, d.Name, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Fancy","status":"True"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("an administrator is refused: %v", err)
	}
}

// TestRightsList: the rules of deploy/, as the API server understands them, hold
// nothing else.
func TestRightsList(t *testing.T) {
	// Every ServiceAccount may do something; what counts is what ours may beyond that.
	rules := func(account string) map[string]bool {
		set := map[string]bool{}
		out := kubectl(t, "auth", "can-i", "--list", "--as", "system:serviceaccount:"+namespace+":"+account, "-n", namespace, "--no-headers")
		for line := range strings.Lines(out) {
			set[strings.Join(strings.Fields(line), " ")] = true
		}
		return set
	}
	everybody := rules("default")
	want := map[string]bool{
		"leases.coordination.k8s.io [] [] [create]":                   true,
		"leases.coordination.k8s.io [] [schedule-night] [get update]": true,
		"events [] [] [create patch]":                                 true,
		"deployments.apps [] [] [get list watch]":                     true,
		"horizontalpodautoscalers.autoscaling [] [] [list watch]":     true,
		"deployments.apps/status [] [] [patch]":                       true,
		"deployments.apps/scale [] [] [update]":                       true,
	}
	for rule := range rules(account) {
		if !everybody[rule] && !want[rule] {
			t.Errorf("a right too many: %s", rule)
		}
		delete(want, rule)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
