package convert

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// sleepInfo is what matters of kube-green's SleepInfo, kube-green.com/v1alpha1.
type sleepInfo struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Weekdays            string         `json:"weekdays"`
		SleepAt             string         `json:"sleepAt"`
		WakeUpAt            string         `json:"wakeUpAt"`
		TimeZone            string         `json:"timeZone"`
		IncludeRef          []sleepInfoRef `json:"includeRef"`
		ExcludeRef          []sleepInfoRef `json:"excludeRef"`
		SuspendDeployments  *bool          `json:"suspendDeployments"`
		SuspendStatefulSets *bool          `json:"suspendStatefulSets"`
		SuspendCronJobs     bool           `json:"suspendCronJobs"`
		Patches             []struct {
			Target metav1.GroupKind `json:"target"`
		} `json:"patches"`
	} `json:"spec"`
}

// sleepInfoRef names an object, or has labels.
type sleepInfoRef struct {
	APIVersion  string            `json:"apiVersion"`
	Kind        string            `json:"kind"`
	Name        string            `json:"name"`
	MatchLabels map[string]string `json:"matchLabels"`
}

// selects tells whether kube-green scales the Deployment for the SleepInfo: if it has
// all that includeRef asks for, and nothing of excludeRef, and no other controller.
func (s *sleepInfo) selects(d *appsv1.Deployment) bool {
	if s.Namespace != d.Namespace || !ptr.Deref(s.Spec.SuspendDeployments, true) && !s.patchesDeployments() || metav1.GetControllerOfNoCopy(d) != nil {
		return false
	}
	isNamed := func(ref sleepInfoRef) bool {
		return strings.HasPrefix(ref.APIVersion, "apps/") && ref.Kind == "Deployment" && ref.Name != ""
	}
	for _, ref := range s.Spec.IncludeRef {
		if isNamed(ref) && ref.Name != d.Name {
			return false
		}
		for name, value := range ref.MatchLabels {
			if d.Labels[name] != value {
				return false
			}
		}
	}
	for _, ref := range s.Spec.ExcludeRef {
		if isNamed(ref) && ref.Name == d.Name {
			return false
		}
		for name, value := range ref.MatchLabels { // each label by itself excludes
			if have, ok := d.Labels[name]; ok && have == value {
				return false
			}
		}
	}
	return true
}

func (s *sleepInfo) patchesDeployments() bool {
	for _, p := range s.Spec.Patches {
		if p.Target.Group == "apps" && p.Target.Kind == "Deployment" {
			return true
		}
	}
	return false
}

// lost says what a SleepInfo does besides scaling Deployments.
func (s *sleepInfo) lost() (list []string) {
	if s.Spec.SuspendCronJobs {
		list = append(list, "suspendCronJobs: CronJobs are not scaled here")
	}
	if ptr.Deref(s.Spec.SuspendStatefulSets, false) {
		list = append(list, "suspendStatefulSets: StatefulSets are not scaled here")
	}
	for _, p := range s.Spec.Patches {
		if p.Target.Group != "apps" || p.Target.Kind != "Deployment" {
			list = append(list, fmt.Sprintf("patches of %s: only replicas are changed here", night.Quote(p.Target.String())))
		}
	}
	return list
}

func (c *converter) fromSleepInfo(d *appsv1.Deployment, info *sleepInfo) conversion {
	spec := &info.Spec
	v := conversion{annotations: map[string]string{}, source: fmt.Sprintf("SleepInfo %s: %s from %s to %s", info.Name, night.Quote(spec.Weekdays), night.Quote(spec.SleepAt), night.Quote(spec.WakeUpAt))}
	zone := cmp.Or(spec.TimeZone, "UTC")
	if spec.TimeZone != "" {
		v.source += " " + night.Quote(spec.TimeZone)
	}
	if info.patchesDeployments() {
		v.lose("the SleepInfo patches Deployments in its own way")
		return v
	}
	if spec.WakeUpAt == "" {
		v.lose("without wakeUpAt it is never woken; a window has an end, so say when")
		return v
	}
	if _, err := night.ParseLocation(zone); err != nil {
		v.lose("timeZone %s: %v", night.Quote(zone), err)
		return v
	}
	asleep, err := sleepWeek(spec.Weekdays, spec.SleepAt, spec.WakeUpAt)
	if err != nil {
		v.lose("%v", err)
		return v
	}
	v.finish(d, c.defaults, asleep.window(), zone, 0, 0)
	return v
}
