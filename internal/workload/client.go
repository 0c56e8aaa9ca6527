package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Client reads and writes workloads at the API server, past any cache. The errors of its
// methods wrap the API server's.
type Client struct {
	Client kubernetes.Interface
	Self   Self
}

// Get reads the live object.
func (c Client) Get(ctx context.Context, namespace, name string) (*Workload, error) {
	live, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the live object: %w", err)
	}
	return c.Self.FromDeployment(live), nil
}

// Scale writes the object's replicas by the scale subresource, on condition that the
// object is still the one that was read: the same UID and resourceVersion.
func (c Client) Scale(ctx context.Context, w *Workload) error {
	_, err := c.Client.AppsV1().Deployments(w.Namespace).UpdateScale(ctx, w.Name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, UID: w.UID, ResourceVersion: w.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: w.Replicas},
	}, metav1.UpdateOptions{FieldManager: FieldManager})
	if err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	return nil
}

// conditionPatch is a strategic merge patch of our condition alone, which leaves the
// Deployment controller's part of the status as it is. The UID makes it fail on an
// object that was made anew under the same name.
type conditionPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Status struct {
		Conditions []appsv1.DeploymentCondition `json:"conditions"`
	} `json:"status"`
}

// WriteRecord writes the object's record, at the time now, whatever else has changed since
// the object was read. An object that was made anew is a conflict.
func (c Client) WriteRecord(ctx context.Context, w *Workload, now time.Time) error {
	unconditional := *w
	unconditional.ResourceVersion = ""
	_, err := c.WriteRecordIfUnchanged(ctx, &unconditional, now)
	return err
}

// WriteRecordIfUnchanged writes the object's record, at the time now, on condition that the
// object is still the one that was read: the same UID and resourceVersion. It returns the
// object as it is after that.
func (c Client) WriteRecordIfUnchanged(ctx context.Context, w *Workload, now time.Time) (*Workload, error) {
	var patch conditionPatch
	patch.Metadata.UID, patch.Metadata.ResourceVersion = w.UID, w.ResourceVersion
	patch.Status.Conditions = []appsv1.DeploymentCondition{w.Record.condition(now)}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the condition: %w", err)
	}
	written, err := c.Client.AppsV1().Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager}, "status")
	if apierrors.IsInvalid(err) { // another UID: to the caller the same as another resourceVersion
		err = apierrors.NewConflict(appsv1.Resource("deployments"), w.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the condition: %w", err)
	}
	return c.Self.FromDeployment(written), nil
}

// SetRecord makes the object's record read as want. Its time moves only with its status.
// Call it on a copy.
func (w *Workload) SetRecord(want Record, now time.Time) {
	want.Since = now
	if w.Record != nil && w.Record.Status == want.Status {
		want.Since = w.Record.Since
	}
	w.Record = &want
}

// ReplicasManager is the field manager that last set the live object's replicas, other
// than we; "" if none did, as managedFields have it.
func (c Client) ReplicasManager(ctx context.Context, w *Workload) (string, error) {
	live, err := c.Client.AppsV1().Deployments(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the live object: %w", err)
	}
	return replicasManager(live.ManagedFields), nil
}

func replicasManager(entries []metav1.ManagedFieldsEntry) string {
	var name string
	var latest metav1.Time
	for _, entry := range entries {
		if entry.Manager == FieldManager || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil || owned.Spec.Replicas == nil {
			continue
		}
		if name == "" || entry.Time != nil && latest.Before(entry.Time) {
			name = entry.Manager
			if entry.Time != nil {
				latest = *entry.Time
			}
		}
	}
	return name
}
