package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// asleepPatch is a strategic merge patch of our condition alone.
func asleepPatch(t *testing.T, status, reason, message string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": condition, "status": status, "reason": reason, "message": message},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestStolenTokenWritesARecordAlone: through the status, the controller's token writes one
// record of bounded size, as the one field manager that it is, and nothing else. So
// nobody can fill a Deployment up with it until its owner cannot change it any more.
func TestStolenTokenWritesARecordAlone(t *testing.T) {
	ns := makeNamespace(t)
	d := makeDeployment(t, ns, "web", 1, "on=true", "expected=1")
	waitReplicas(t, ns, "web", 1)
	client, _ := thief(t)
	ctx := t.Context()
	deployments := client.AppsV1().Deployments(ns)
	type write struct {
		patch   types.PatchType
		body    string
		manager string
	}
	ours := func(body string) write { return write{types.StrategicMergePatchType, body, account} }
	send := func(w write) error {
		options := metav1.PatchOptions{FieldManager: w.manager}
		if w.patch == types.ApplyYAMLPatchType {
			options.Force = ptr.To(true)
		}
		_, err := deployments.Patch(ctx, d.Name, w.patch, []byte(w.body), options, "status")
		return err
	}
	record := func(n int) string { return asleepPatch(t, "False", "DayWindow", strings.Repeat("x", n)) }
	apply := func(config string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"` + config + `}`
	}
	ourStatus := `},"status":{"conditions":[{"type":"` + condition + `","status":"False","reason":"DayWindow","message":"m"}]`
	const twice = `[{"op":"add","path":"/status/conditions/-","value":{"type":"` + condition + `","status":"True","reason":"NightWindow","message":"m"}}]`

	for name, w := range map[string]write{
		"a record":                   ours(asleepPatch(t, "True", "NightWindow", "replicas=0 expected=3 until=-")),
		"the longest record":         ours(record(1024)),
		"a record of two-byte runes": ours(asleepPatch(t, "Unknown", "InvalidSchedule", strings.Repeat("ä", 512))),
	} {
		if err := send(w); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
	for name, w := range map[string]write{
		"a message a byte too long":        ours(record(1025)),
		"a message of two-byte runes":      ours(asleepPatch(t, "False", "DayWindow", strings.Repeat("ä", 513))),
		"a message of 1.4 MB":              ours(record(1_400_000)),
		"a reason that is long":            ours(asleepPatch(t, "False", strings.Repeat("R", 65), "m")),
		"a reason of 1 MB":                 ours(asleepPatch(t, "False", strings.Repeat("R", 1_000_000), "m")),
		"a reason that is none":            ours(asleepPatch(t, "False", "", "m")),
		"a reason that is a text":          ours(asleepPatch(t, "False", "Day Window", "m")),
		"a status that is none":            ours(asleepPatch(t, "Maybe", "DayWindow", "m")),
		"a status of 1 MB":                 ours(asleepPatch(t, strings.Repeat("T", 1_000_000), "DayWindow", "m")),
		"a second record":                  {types.JSONPatchType, twice, account},
		"no record any more":               ours(`{"status":{"conditions":[{"type":"` + condition + `","$patch":"delete"}]}}`),
		"no condition at all":              {types.MergePatchType, `{"status":{"conditions":null}}`, account},
		"no status at all":                 {types.MergePatchType, `{"status":null}`, account},
		"a condition with a blank more":    ours(strings.Replace(record(1), condition, condition+" ", 1)),
		"a condition in small letters":     ours(strings.Replace(record(1), condition, strings.ToLower(condition), 1)),
		"a condition with a longer name":   ours(strings.Replace(record(1), condition, condition+strings.Repeat("x", 1_000_000), 1)),
		"generateName":                     ours(`{"metadata":{"generateName":"x-"}}`),
		"a record and generateName":        ours(`{"metadata":{"generateName":"` + strings.Repeat("x", 1_000_000) + `"},` + strings.TrimPrefix(record(1), "{")),
		"no annotations any more":          {types.MergePatchType, `{"metadata":{"annotations":null}}`, account},
		"an annotation less":               ours(`{"metadata":{"annotations":{"` + prefix + `on":null}}}`),
		"a count of what ends":             ours(`{"status":{"terminatingReplicas":9}}`),
		"a collision":                      ours(`{"status":{"collisionCount":9}}`),
		"what was observed":                {types.MergePatchType, `{"status":{"observedGeneration":null}}`, account},
		"as another field manager":         {types.StrategicMergePatchType, record(1), "helm"},
		"as no field manager":              {types.StrategicMergePatchType, record(1), ""},
		"applied as another field manager": {types.ApplyYAMLPatchType, apply(ourStatus + "}"), "helm"},
		"applied as ours":                  {types.ApplyYAMLPatchType, apply(ourStatus + "}"), account},
		"applied to own an annotation":     {types.ApplyYAMLPatchType, apply(`,"annotations":{"` + prefix + `on":"true"}}`), account},
	} {
		if err := send(w); !apierrors.IsForbidden(err) {
			t.Errorf("%s is not forbidden: %.300v", name, fmt.Sprint(err))
		}
	}
	// What a field manager each would add up to.
	accepted := 0
	for i := range 50 {
		if send(write{types.ApplyYAMLPatchType, apply(ourStatus + "}"), fmt.Sprintf("%s-%d", account, i)}) == nil {
			accepted++
		}
	}
	if accepted > 0 {
		t.Errorf("%d of 50 field managers took a place in managedFields", accepted)
	}

	// Neither the API server's own rules nor the policy lets these have an effect.
	for name, body := range map[string]string{
		"a self link":         `{"metadata":{"selfLink":"` + strings.Repeat("x", 100_000) + `"}}`,
		"a deletion":          `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":1}}`,
		"a generation":        `{"metadata":{"generation":99}}`,
		"a time of creation":  `{"metadata":{"creationTimestamp":"2020-01-01T00:00:00Z"}}`,
		"a field of the spec": `{"spec":{"paused":true,"replicas":7,"progressDeadlineSeconds":1}}`,
		"an unknown field":    `{"status":{"fancy":"` + strings.Repeat("x", 100_000) + `"}}`,
		"no managed fields":   `{"metadata":{"managedFields":[{}]}}`,
		"managed fields":      `{"metadata":{"managedFields":[{"manager":"` + strings.Repeat("x", 128) + `","operation":"Apply","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]}}`,
	} {
		if err := send(ours(body)); err != nil {
			t.Logf("%s: %.200v", name, err)
		}
	}
	live, err := plane.Client.AppsV1().Deployments(ns).Get(ctx, d.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if live.GenerateName != "" || live.DeletionTimestamp != nil || live.Generation != 1 || !live.CreationTimestamp.Equal(&d.CreationTimestamp) ||
		live.Spec.Paused || *live.Spec.Replicas != 1 || live.Annotations[prefix+"on"] != "true" {
		t.Errorf("the Deployment is now %.2000s", fmt.Sprintf("%+v", live))
	}
	if !slices.ContainsFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == d.ManagedFields[0].Manager }) {
		t.Error("what its owner owns is forgotten")
	}
	for _, e := range live.ManagedFields {
		if e.Manager != d.ManagedFields[0].Manager && e.Manager != account && !strings.HasPrefix(e.Manager, "kube-controller-manager") {
			t.Errorf("field manager %q, %s", e.Manager, e.Operation)
		}
	}
	if size := live.Size(); size > 8192 {
		t.Errorf("it has grown to %d bytes", size)
	}

	out := kubectl(t, "get", "validatingadmissionpolicy", "schedule-night-status", "-o", "jsonpath={.status.observedGeneration} {.status.typeChecking.expressionWarnings}")
	if strings.TrimSpace(out) != "1" {
		t.Errorf("the API server's check of the policy's types says %s", out)
	}

	// Its owner rolls out.
	kubectl(t, "set", "image", "-n", ns, "deployment/web", "app=example.com/app:2")
	annotate(t, ns, "web", "expected=2")
	waitDeployment(t, ns, "web", "rolled out", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1
	})
}

// TestStolenTokenLargeDeployment: the policy costs the API server something for each byte
// of a Deployment, and must not refuse the controller's own writes to a large one.
func TestStolenTokenLargeDeployment(t *testing.T) {
	ns := makeNamespace(t)
	d := newDeployment(ns, "large", 1)
	for i := range 250 {
		d.Annotations[fmt.Sprintf("example.com/%d", i)] = strings.Repeat("x", 1000)
	}
	for i := range 2000 {
		d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("x", 300)})
	}
	d.Spec.Replicas = ptr.To[int32](0)
	if _, err := plane.Client.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, _ := thief(t)
	if _, err := client.AppsV1().Deployments(ns).Patch(t.Context(), "large", types.StrategicMergePatchType,
		[]byte(asleepPatch(t, "False", "DayWindow", strings.Repeat("x", 1024))), metav1.PatchOptions{FieldManager: account}, "status"); err != nil {
		t.Errorf("refused: %v", err)
	}
}
