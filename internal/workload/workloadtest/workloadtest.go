// Package workloadtest makes objects for tests.
package workloadtest

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"schedule-night/internal/night"
	"schedule-night/internal/workload"
)

// Deployment makes web in namespace default, with the annotations "on=true
// expected=3" and those given, each as name=value without the prefix.
func Deployment(replicas int32, annotations ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-1", ResourceVersion: "1", Annotations: map[string]string{
			night.AnnotationOn: "true", night.AnnotationExpected: "3", "example.com/other": "x",
		}},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas},
	}
	for _, a := range annotations {
		name, value, _ := strings.Cut(a, "=")
		d.Annotations[night.Prefix+name] = value
	}
	return d
}

// Placed gives a Deployment another place.
func Placed(namespace, name string, d *appsv1.Deployment) *appsv1.Deployment {
	d.Namespace, d.Name, d.UID = namespace, name, types.UID(namespace+"/"+name)
	return d
}

// Without removes annotations.
func Without(d *appsv1.Deployment, names ...string) *appsv1.Deployment {
	for _, name := range names {
		delete(d.Annotations, night.Prefix+name)
	}
	return d
}

// WithCondition sets our condition.
func WithCondition(d *appsv1.Deployment, status corev1.ConditionStatus, reason, message string) *appsv1.Deployment {
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: workload.ConditionAsleep, Status: status, Reason: reason, Message: message})
	return d
}

// AsleepSince records that a Deployment sleeps until 2026-11-29T07:00:00Z.
func AsleepSince(d *appsv1.Deployment) *appsv1.Deployment {
	return WithCondition(d, corev1.ConditionTrue, workload.ReasonNightWindow, "replicas=0 expected=3 until=2026-11-29T07:00:00Z")
}

// HPAFor makes an autoscaler of the Deployment of that name in namespace default.
func HPAFor(name string, minReplicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hpa", ResourceVersion: "1"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    &minReplicas,
		},
	}
}

// Of is a Deployment as the caches hold it.
func Of(d *appsv1.Deployment) *workload.Workload { return workload.Self{}.FromDeployment(d) }
