package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"schedule-night/internal/night"
)

// ConditionAsleep is our condition on a Deployment's status: True while it
// sleeps, False while it is awake, Unknown while its schedule cannot be read.
// It is also our record: the API server keeps it over our restarts.
const ConditionAsleep appsv1.DeploymentConditionType = night.Prefix + "Asleep"

// Reasons of the condition.
const (
	ReasonNightWindow     = "NightWindow"     // True: the window says so
	ReasonAsleepUntil     = "AsleepUntil"     // True: the override says so
	ReasonDayWindow       = "DayWindow"       // False: the window says so
	ReasonAwakeUntil      = "AwakeUntil"      // False: the override says so
	ReasonReleased        = "Released"        // False: opted out while asleep; also an event
	ReasonInvalidSchedule = "InvalidSchedule" // Unknown; also an event
)

// Reasons of events alone.
const (
	ReasonScaledDown         = "ScaledDown"
	ReasonScaledUp           = "ScaledUp"
	ReasonReconcileFailed    = "ReconcileFailed"    // several tries in a row
	ReasonContested          = "Contested"          // somebody else keeps changing the count
	ReasonAutoscalerConflict = "AutoscalerConflict" // an annotation does not go with an autoscaler
)

// fieldManager owns what we write, in the objects' managedFields.
const fieldManager = "schedule-night"

// asleepCondition is our condition on the Deployment, nil if it has none.
func asleepCondition(d *appsv1.Deployment) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == ConditionAsleep {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// isAsleep tells whether our record says that the Deployment was put to sleep and has
// not been woken.
func isAsleep(d *appsv1.Deployment) bool {
	c := asleepCondition(d)
	return c != nil && (c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionUnknown && strings.Contains(c.Message, stillAsleep))
}

// stillAsleep, before the record, ends the message of a condition that has become
// Unknown in the night: a Deployment must not be forgotten because its schedule was
// broken while it slept.
const stillAsleep = "; still asleep with "

// sleepRecord is what we applied to a Deployment that isAsleep. A record that somebody
// has made unreadable counts as that of 0 replicas.
func sleepRecord(d *appsv1.Deployment) (appliedRecord, bool) {
	if !isAsleep(d) {
		return appliedRecord{}, false
	}
	message := asleepCondition(d).Message
	if i := strings.LastIndex(message, stillAsleep); i >= 0 {
		message = message[i+len(stillAsleep):]
	}
	r, _ := parseRecord(message)
	return r, true
}

// recordFormat is the message of the condition: the count that was applied, the
// day's count, and until when.
const recordFormat = "replicas=%d expected=%d until=%s"

// appliedRecord is what the condition's message says.
type appliedRecord struct {
	replicas, expected int32
	until              time.Time // zero if there was no boundary ahead
}

// String is the record as recordFormat has it. Each pass makes it, so it costs one
// allocation.
func (r appliedRecord) String() string {
	b := append(make([]byte, 0, 96), "replicas="...)
	b = strconv.AppendInt(b, int64(r.replicas), 10)
	b = append(b, " expected="...)
	b = strconv.AppendInt(b, int64(r.expected), 10)
	b = append(b, " until="...)
	return string(appendBoundary(b, r.until))
}

// wakeTo is the count of a Deployment that is let go: the day's, if it still has the
// count that was applied, else the one that it has.
func (r appliedRecord) wakeTo(replicas int32, annotations map[string]string) int32 {
	if replicas != r.replicas {
		return replicas
	}
	if n, err := night.ParseReplicas(annotations[night.AnnotationExpected]); err == nil {
		return n
	}
	return r.expected
}

func parseRecord(message string) (appliedRecord, bool) {
	var r appliedRecord
	var until string
	if n, _ := fmt.Sscanf(message, recordFormat, &r.replicas, &r.expected, &until); n != 3 {
		return r, false
	}
	if until != formatBoundary(time.Time{}) {
		var err error
		if r.until, err = time.Parse(time.RFC3339, until); err != nil {
			return r, false
		}
	}
	return r, true
}

// formatBoundary writes a boundary in its own zone, "-" where there is none.
func formatBoundary(t time.Time) string { return string(appendBoundary(nil, t)) }

func appendBoundary(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, '-')
	}
	return t.AppendFormat(b, time.RFC3339Nano) // a fraction of a second only where there is one
}

func scheduleCondition(s *night.Schedule, state night.State) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{
		Type:    ConditionAsleep,
		Status:  corev1.ConditionFalse,
		Reason:  ReasonDayWindow,
		Message: appliedRecord{s.Replicas(state.Asleep), s.Expected, state.Next}.String(),
	}
	switch {
	case state.Asleep && state.Override:
		c.Status, c.Reason = corev1.ConditionTrue, ReasonAsleepUntil
	case state.Asleep:
		c.Status, c.Reason = corev1.ConditionTrue, ReasonNightWindow
	case state.Override:
		c.Reason = ReasonAwakeUntil
	}
	return c
}

func invalidCondition(err error, record appliedRecord, slept bool) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{Type: ConditionAsleep, Status: corev1.ConditionUnknown, Reason: ReasonInvalidSchedule, Message: err.Error()}
	if slept {
		c.Message += stillAsleep + record.String()
	}
	return c
}

func releasedCondition(replicas int32) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type:    ConditionAsleep,
		Status:  corev1.ConditionFalse,
		Reason:  ReasonReleased,
		Message: appliedRecord{replicas, replicas, time.Time{}}.String(),
	}
}

// conditionPatch is a strategic merge patch of our condition alone, which
// leaves the Deployment controller's part of the status as it is. The UID makes
// it fail on an object that was made anew under the same name.
type conditionPatch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		Conditions []appsv1.DeploymentCondition `json:"conditions"`
	} `json:"status"`
}

// writeCondition makes our condition on the Deployment read as want. Its
// transition time moves only with its status.
func writeCondition(ctx context.Context, client kubernetes.Interface, d *appsv1.Deployment, want appsv1.DeploymentCondition, now time.Time) error {
	want.LastUpdateTime = metav1.NewTime(now)
	want.LastTransitionTime = want.LastUpdateTime
	if have := asleepCondition(d); have != nil && have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	var patch conditionPatch
	patch.Metadata.UID = d.UID
	patch.Status.Conditions = []appsv1.DeploymentCondition{want}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding the condition: %w", err)
	}
	_, err = client.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if apierrors.IsInvalid(err) { // another UID: to the caller the same as another resourceVersion
		err = apierrors.NewConflict(appsv1.Resource("deployments"), d.Name, err)
	}
	if err != nil {
		return fmt.Errorf("writing the condition: %w", err)
	}
	return nil
}

// replicasManager is the field manager that last set spec.replicas, other than we, as
// the live object's managedFields have it; "" if none does.
func replicasManager(live *appsv1.Deployment) string {
	var name string
	var latest metav1.Time
	for _, entry := range live.ManagedFields {
		if entry.Manager == fieldManager || entry.FieldsV1 == nil {
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
