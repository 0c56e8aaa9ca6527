package convert

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// conversion is what becomes of a Deployment's old schedule.
type conversion struct {
	source string   // which schedule that was; "" if neither tool has one for it
	notes  []string // worth knowing
	lost   []string // what cannot be carried over

	ok          bool // there are annotations to print
	annotations map[string]string
	remove      []string // old annotations
}

// convert finds the old schedule of a Deployment.
func (c *converter) convert(d *appsv1.Deployment) conversion {
	out := c.fromDownscaler(d)
	var infos []*sleepInfo
	for _, info := range c.sleepInfos {
		if info.selects(d) {
			infos = append(infos, info)
		}
	}
	switch {
	case d.Annotations[night.AnnotationOn] != "":
		if out.source == "" && len(infos) == 0 {
			return conversion{}
		}
		return conversion{source: cmp.Or(out.source, "SleepInfo"), notes: []string{"has " + night.AnnotationOn + " already; left alone"}}
	case len(infos) == 0:
		return out
	case out.source != "":
		out.lose("SleepInfo %s selects it too; one schedule has to go", infos[0].Name)
		out.ok = false
		return out
	case len(infos) > 1:
		out = conversion{source: "SleepInfos " + infos[0].Name + " and " + infos[1].Name}
		out.lose("more than one SleepInfo selects it; write the window that is meant")
		return out
	}
	return c.fromSleepInfo(d, infos[0])
}

func (v *conversion) lose(format string, args ...any) {
	v.lost = append(v.lost, fmt.Sprintf(format, args...))
}

// finish fills in the annotations, if they are to be had. NightReplicas is the count that the
// old tool scales down to, original the count before it did, 0 if that is not known.
// Neither tool holds a count in the day or scales up at night.
func (v *conversion) finish(d *appsv1.Deployment, defaults night.Schedule, window night.Window, zone string, nightReplicas, original int32) {
	expected := original
	if expected == 0 {
		expected = ptr.Deref(d.Spec.Replicas, 1) // the API's default
	}
	switch {
	case expected == 0:
		v.lose("cannot tell the replicas of the day: there are 0 now; run this again while it is awake, or add %s yourself", night.AnnotationExpected)
	case expected <= nightReplicas:
		note := fmt.Sprintf("never scaled down: %d replicas are not above the %d of the night", expected, nightReplicas)
		if original == 0 && expected == nightReplicas {
			note += "; if it sleeps now, run this again while it is awake"
		}
		v.notes = append(v.notes, note)
		return
	}
	v.annotations[night.AnnotationOn] = "true"
	v.annotations[night.AnnotationExpected] = fmt.Sprint(expected)
	v.annotations[night.AnnotationWindow] = window.String()
	v.annotations[night.AnnotationTimezone] = zone
	v.annotations[night.AnnotationDaytime] = string(night.DaytimeWakeOnly)
	if nightReplicas != 0 {
		v.annotations[night.AnnotationNightReplicas] = fmt.Sprint(nightReplicas)
	}
	if _, err := night.ParseSchedule(v.annotations, defaults); err != nil {
		v.lose("%s", err)
		return
	}
	if v.ok = expected > 0; !v.ok {
		v.notes = append(v.notes, fmt.Sprintf("the schedule would be %s %s", night.Quote(window.String()), zone))
	}
}
