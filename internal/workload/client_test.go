package workload

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// TestReplicasManager: of those who own the replicas, the last but us is named.
func TestReplicasManager(t *testing.T) {
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	entry := func(manager string, hour int, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
		if hour > 0 {
			at := metav1.Date(2026, 11, 28, hour, 0, 0, 0, time.UTC)
			e.Time = &at
		}
		return e
	}
	broken, empty := entry("broken", 23, `{`), metav1.ManagedFieldsEntry{Manager: "empty"}
	for _, tc := range []struct {
		want    string
		entries []metav1.ManagedFieldsEntry
	}{
		{"", nil},
		{"", []metav1.ManagedFieldsEntry{entry(FieldManager, 5, replicas), entry("kubectl", 6, image), broken, empty}},
		{"no-time", []metav1.ManagedFieldsEntry{entry("no-time", 0, replicas), entry(FieldManager, 0, replicas), broken, empty}},
		{"helm", []metav1.ManagedFieldsEntry{entry(FieldManager, 9, replicas), entry("helm", 5, replicas), entry(FieldManager, 9, replicas)}},
		{"argocd", []metav1.ManagedFieldsEntry{entry("helm", 5, replicas), entry("argocd", 7, replicas), entry("flux", 6, replicas)}},
		{"argocd", []metav1.ManagedFieldsEntry{entry("argocd", 7, replicas), entry("helm", 5, replicas), entry("no-time", 0, replicas)}},
		{"helm", []metav1.ManagedFieldsEntry{entry("no-time", 0, replicas), entry("helm", 5, replicas)}},
	} {
		if got := replicasManager(tc.entries); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func testDeployment() *appsv1.Deployment {
	replicas := int32(3)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", ResourceVersion: "7"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

// TestScaleRequest: the count goes to the scale, on condition that the object is still the
// one that was read.
func TestScaleRequest(t *testing.T) {
	client := fake.NewClientset(testDeployment())
	var answer error
	client.PrependReactor("update", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
		update := action.(k8stesting.UpdateActionImpl)
		scale := update.Object.(*autoscalingv1.Scale)
		if update.Namespace != "shop" || update.Subresource != "scale" || scale.Name != "web" || scale.Namespace != "shop" || scale.UID != "uid-1" ||
			scale.ResourceVersion != "7" || scale.Spec.Replicas != 5 || update.UpdateOptions.FieldManager != "schedule-night" {
			t.Errorf("%+v of %+v", update, scale)
		}
		return true, scale, answer
	})
	c := Client{Client: client}
	w, err := c.Get(t.Context(), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	w.Replicas = 5
	if err := c.Scale(t.Context(), w); err != nil {
		t.Error(err)
	}
	answer = apierrors.NewConflict(appsv1.Resource("deployments"), "web", errors.New("changed"))
	if err := c.Scale(t.Context(), w); !apierrors.IsConflict(err) {
		t.Errorf("a conflict became %v", err)
	}
	if _, err := c.Get(t.Context(), "shop", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("what is not there: %v", err)
	}
}

// TestRecordRequest: of the status, nothing but our condition; another UID is a conflict.
func TestRecordRequest(t *testing.T) {
	now := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	const body = `"status":{"conditions":[{"type":"schedule-night.svc/Asleep","status":"True","lastUpdateTime":"2026-11-28T21:00:00Z",` +
		`"lastTransitionTime":"2026-11-28T20:00:00Z","reason":"NightWindow","message":"replicas=0 expected=3 until=-"}]}}`
	client := fake.NewClientset()
	var answer error
	var got string
	client.PrependReactor("patch", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
		patch := action.(k8stesting.PatchActionImpl)
		got = string(patch.Patch)
		if patch.Namespace != "shop" || patch.Name != "web" || patch.Subresource != "status" || patch.PatchType != types.StrategicMergePatchType ||
			patch.PatchOptions.FieldManager != "schedule-night" {
			t.Errorf("%+v", patch)
		}
		d := testDeployment()
		d.ResourceVersion = "8"
		return true, d, answer
	})
	c := Client{Client: client}
	w := Self{}.FromDeployment(testDeployment())
	w.Record = &Record{Status: corev1.ConditionTrue, Reason: ReasonNightWindow, Message: "replicas=0 expected=3 until=-", Since: now.Add(-time.Hour)}
	if err := c.WriteRecord(t.Context(), w, now); err != nil || got != `{"metadata":{"uid":"uid-1"},`+body {
		t.Errorf("%s, error %v", got, err)
	}
	written, err := c.WriteRecordIfUnchanged(t.Context(), w, now)
	if err != nil || written.ResourceVersion != "8" || got != `{"metadata":{"uid":"uid-1","resourceVersion":"7"},`+body {
		t.Errorf("%s, error %v", got, err)
	}
	if w.ResourceVersion != "7" {
		t.Errorf("the workload has become %+v", w)
	}
	for _, tc := range []struct {
		answer error
		is     func(error) bool
	}{
		{apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "web", nil), apierrors.IsConflict},
		{apierrors.NewConflict(appsv1.Resource("deployments"), "web", nil), apierrors.IsConflict},
		{apierrors.NewNotFound(appsv1.Resource("deployments"), "web"), apierrors.IsNotFound},
		{apierrors.NewForbidden(appsv1.Resource("deployments"), "web", errors.New("no")), apierrors.IsForbidden},
	} {
		answer = tc.answer
		if err := c.WriteRecord(t.Context(), w, now); !tc.is(err) {
			t.Errorf("%v became %v", answer, err)
		}
	}
}

// TestSetRecord: the time is that of the status, whatever else of the record changes.
func TestSetRecord(t *testing.T) {
	now := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	w := &Workload{}
	for i, tc := range []struct {
		status corev1.ConditionStatus
		moves  bool
	}{
		{corev1.ConditionTrue, true},
		{corev1.ConditionTrue, false},
		{corev1.ConditionUnknown, true},
		{corev1.ConditionUnknown, false},
		{corev1.ConditionFalse, true},
	} {
		at := now.Add(time.Duration(i) * time.Hour)
		want := at
		if !tc.moves {
			want = w.Record.Since
		}
		before := w.Record
		w.SetRecord(Record{Status: tc.status, Reason: "R", Message: string(rune('a' + i))}, at)
		if !w.Record.Since.Equal(want) || w.Record == before || w.Record.Message != string(rune('a'+i)) {
			t.Errorf("step %d: %+v, want since %v", i, w.Record, want)
		}
	}
}
