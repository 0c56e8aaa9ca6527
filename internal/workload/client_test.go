package workload

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReplicasManager(t *testing.T) {
	if got := replicasManager(nil); got != "" {
		t.Errorf("got %q", got)
	}
	entries := []metav1.ManagedFieldsEntry{
		{Manager: "no-time", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)},
		{Manager: FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)},
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{`)},
		{Manager: "empty"},
	}
	if got := replicasManager(entries); got != "no-time" {
		t.Errorf("got %q", got)
	}
}
