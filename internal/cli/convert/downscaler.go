package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"schedule-night/internal/night"
)

// The annotations of py-kube-downscaler and of GoKubeDownscaler; where only one of them
// has it, it is named.
const (
	downscalerPrefix = "downscaler/"

	downscalerUptime           = downscalerPrefix + "uptime"
	downscalerDowntime         = downscalerPrefix + "downtime"
	downscalerDowntimeReplicas = downscalerPrefix + "downtime-replicas"  // py
	downscalerReplicas         = downscalerPrefix + "downscale-replicas" // Go
	downscalerOriginalReplicas = downscalerPrefix + "original-replicas"
	downscalerExclude          = downscalerPrefix + "exclude"
	downscalerExcludeUntil     = downscalerPrefix + "exclude-until"
	downscalerForceUptime      = downscalerPrefix + "force-uptime"
	downscalerForceDowntime    = downscalerPrefix + "force-downtime"
	downscalerUpscalePeriod    = downscalerPrefix + "upscale-period"
	downscalerDownscalePeriod  = downscalerPrefix + "downscale-period"
	downscalerGracePeriod      = downscalerPrefix + "grace-period"     // Go
	downscalerScaleChildren    = downscalerPrefix + "scale-children"   // Go
	downscalerUpscaleExcluded  = downscalerPrefix + "upscale-excluded" // Go; so it is here
)

// downscalerKnown are all of them.
var downscalerKnown = []string{
	downscalerUptime, downscalerDowntime, downscalerDowntimeReplicas, downscalerReplicas, downscalerOriginalReplicas,
	downscalerExclude, downscalerExcludeUntil, downscalerForceUptime, downscalerForceDowntime, downscalerUpscalePeriod,
	downscalerDownscalePeriod, downscalerGracePeriod, downscalerScaleChildren, downscalerUpscaleExcluded,
}

// downscalerItself are the Deployments that kube-downscaler leaves alone by default.
var downscalerItself = []string{"py-kube-downscaler", "kube-downscaler", "downscaler"}

// fromDownscaler reads the annotations of a Deployment and of its Namespace, and the
// old controller's flags, by the rules of py-kube-downscaler:
//
//	excluded by the Deployment or the Namespace          not touched
//	in the Namespace's force-uptime                      awake
//	in the Namespace's force-downtime                    asleep
//	in uptime and not in downtime, each the Deployment's,
//	else the Namespace's, else the flag's                awake
//	else                                                 asleep
func (c *converter) fromDownscaler(d *appsv1.Deployment) conversion {
	if slices.Contains(downscalerItself, d.Name) {
		return conversion{}
	}
	ns := c.namespaces[d.Namespace]
	values, v := c.downscalerValues(d.Annotations, ns)
	if v.source == "" {
		return v
	}
	awakeUntil, excluded := v.exclusions(d.Annotations, ns)
	if excluded {
		return v
	}
	if c.namespacesUnknown {
		v.lose("the Namespace cannot be read, and what it says counts, too")
	}
	if values[downscalerUpscalePeriod] != "never" || values[downscalerDownscalePeriod] != "never" {
		v.lose("upscale-period and downscale-period act within a time and let go after it; there is nothing like it here")
	}
	for _, name := range []string{downscalerForceUptime, downscalerForceDowntime} {
		if value, ok := d.Annotations[name]; ok && !strings.EqualFold(value, "false") {
			v.lose("%s %s on a Deployment: py-kube-downscaler does not read it there, GoKubeDownscaler does; take it away, or write the window that is meant", name, night.Quote(value))
		}
		if strings.EqualFold(values[name], "true") {
			v.lose("%s has no end: take it away and run this again, or write %s or %s", name, night.AnnotationAwakeUntil, night.AnnotationAsleepUntil)
			values[name] = "never"
		}
	}
	nightReplicas := v.nightReplicas(d.Annotations, ns, c.flags[downscalerDowntimeReplicas])
	original := v.replicas(downscalerOriginalReplicas, cmp.Or(d.Annotations[downscalerOriginalReplicas], "0"))
	specs, zone := v.timeSpecs(values)
	if len(v.lost) == 0 {
		window, end := v.combine(specs, zone, c.now)
		if end.After(awakeUntil) {
			awakeUntil = end
		}
		if awakeUntil.After(c.now) {
			v.annotations[night.AnnotationAwakeUntil] = awakeUntil.Format(time.RFC3339)
		}
		if window.Len() == 0 {
			v.notes = append(v.notes, "never asleep; left out")
		} else {
			v.finish(d, c.defaults, window, zone.String(), nightReplicas, original)
		}
	}
	v.loseRest(d.Annotations, ns)
	return v
}

// downscalerNames are those with the prefix of kube-downscaler's annotations, sorted.
func downscalerNames(annotations map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, downscalerPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// removable are those that one of the old tools reads: they are of no use without it.
func removable(annotations map[string]string) []string {
	return slices.DeleteFunc(downscalerNames(annotations), func(name string) bool { return !slices.Contains(downscalerKnown, name) })
}

// loseRest names the annotations of a Deployment and of its Namespace that have no rule.
// What one of the old tools does on scaling down is no loss where it never does that.
func (v *conversion) loseRest(deployment, namespace map[string]string) {
	sleeps := v.ok || len(v.lost) > 0
	for i, annotations := range []map[string]string{deployment, namespace} {
		of := [2]string{"", " of the Namespace"}[i]
		for _, name := range downscalerNames(annotations) {
			value := annotations[name]
			var why string
			switch {
			case name == downscalerGracePeriod && sleeps:
				why = "a new Deployment is put to sleep at once here"
			case name == downscalerScaleChildren && sleeps && !strings.EqualFold(value, "false"):
				why = "what a workload owns is not scaled with it here"
			case !slices.Contains(downscalerKnown, name):
				why = "neither py-kube-downscaler nor GoKubeDownscaler has such an annotation"
			default:
				continue
			}
			v.lose("%s %s%s: %s", name, night.Quote(value), of, why)
		}
	}
}

// downscalerValues are the values that hold for a Deployment, by annotation. The
// source that comes with them is empty if there is nothing that could scale it.
func (c *converter) downscalerValues(deployment, namespace map[string]string) (map[string]string, conversion) {
	v := conversion{annotations: map[string]string{}, remove: removable(deployment)}
	values := map[string]string{
		downscalerForceUptime: "false", downscalerForceDowntime: "false", downscalerUpscalePeriod: "never", downscalerDownscalePeriod: "never",
	}
	maps.Copy(values, c.flags)
	var sources []string
	for _, name := range []string{downscalerUptime, downscalerDowntime, downscalerDowntimeReplicas, downscalerReplicas, downscalerForceUptime,
		downscalerForceDowntime, downscalerUpscalePeriod, downscalerDownscalePeriod} {
		value, ok := deployment[name]
		of := ""
		if isForce := name == downscalerForceUptime || name == downscalerForceDowntime; !ok || isForce {
			value, ok = namespace[name]
			of = " of the Namespace"
		}
		if ok {
			values[name] = value
			sources = append(sources, fmt.Sprintf("%s %s%s", name, night.Quote(value), of))
		}
	}
	for _, name := range []string{downscalerForceUptime, downscalerForceDowntime} {
		if value := values[name]; value == "" || strings.EqualFold(value, "false") {
			values[name] = "never"
		}
	}
	sleeps := !strings.EqualFold(values[downscalerUptime], "always")
	for _, name := range []string{downscalerDowntime, downscalerForceDowntime, downscalerUpscalePeriod, downscalerDownscalePeriod} {
		sleeps = sleeps || !strings.EqualFold(values[name], "never")
	}
	names := downscalerNames(deployment)
	switch {
	case len(sources) > 0 && (sleeps || len(names) > 0):
		v.source = strings.Join(sources, ", ")
	case sleeps:
		v.source = "the defaults of kube-downscaler"
	case len(names) > 0:
		v.source = strings.Join(names, ", ")
	}
	return values, v
}

// exclusions reads exclude and exclude-until, on the Deployment or the Namespace.
func (v *conversion) exclusions(deployment, namespace map[string]string) (until time.Time, excluded bool) {
	for i, annotations := range []map[string]string{deployment, namespace} {
		of := [2]string{"", " of the Namespace"}[i]
		// Any other value than false excludes.
		value, ok := annotations[downscalerExclude]
		if spec, err := parseTimeSpec(value); err == nil && spec.sometimes() {
			v.lose("%s %s%s: py-kube-downscaler leaves it alone for ever, GoKubeDownscaler at these times; write true, or the window that is meant", downscalerExclude, night.Quote(value), of)
		} else if ok && !strings.EqualFold(value, "false") {
			v.notes = append(v.notes, fmt.Sprintf("left out: %s %s%s", downscalerExclude, night.Quote(value), of))
			return until, true
		}
		if value := annotations[downscalerExcludeUntil]; value != "" {
			t, err := parseExcludeUntil(value)
			if err != nil {
				v.lose("%s %s%s: %v", downscalerExcludeUntil, night.Quote(value), of, err)
			} else if t.After(until) {
				until = t
			}
		}
	}
	return until, false
}

// nightReplicas is the count of the night: the Deployment's, else the Namespace's, else
// the flag's. Its name is another in each of the old tools, which do not know the other's.
func (v *conversion) nightReplicas(deployment, namespace map[string]string, flag string) int32 {
	find := func(name string) (value string, ok bool) {
		if value, ok = deployment[name]; !ok {
			value, ok = namespace[name]
		}
		return value, ok
	}
	py, ofPy := find(downscalerDowntimeReplicas)
	other, ofGo := find(downscalerReplicas)
	switch {
	case ofPy && ofGo && py != other:
		v.lose("%s %s is for py-kube-downscaler and %s %s for GoKubeDownscaler; take one away", downscalerDowntimeReplicas, night.Quote(py), downscalerReplicas, night.Quote(other))
		return 0
	case ofGo:
		return v.replicas(downscalerReplicas, other)
	case ofPy:
		return v.replicas(downscalerDowntimeReplicas, py)
	}
	return v.replicas(downscalerDowntimeReplicas, flag)
}

// replicas reads a count.
func (v *conversion) replicas(name, value string) int32 {
	n, err := night.ParseReplicas(value)
	if err != nil {
		v.lose("%s %s: %v", name, night.Quote(value), err)
	}
	return n
}

// downscalerSpecs is what the four values mean that say when.
type downscalerSpecs struct{ up, down, forceUp, forceDown timeSpec }

// timeSpecs reads them; zone is the one that all of them are in.
func (v *conversion) timeSpecs(values map[string]string) (specs downscalerSpecs, zone *time.Location) {
	name := ""
	for _, from := range []struct {
		name string
		spec *timeSpec
	}{
		{downscalerUptime, &specs.up}, {downscalerDowntime, &specs.down},
		{downscalerForceUptime, &specs.forceUp}, {downscalerForceDowntime, &specs.forceDown},
	} {
		var err error
		if *from.spec, err = parseTimeSpec(values[from.name]); err != nil {
			v.lose("%s %v", from.name, err)
			continue
		}
		switch z := from.spec.zone; {
		case z == "" || z == name:
		case name == "":
			name = z
		default:
			v.lose("%s is in %s and another in %s; a Deployment has one time zone", from.name, z, name)
		}
		if from.spec.minuteShort {
			v.notes = append(v.notes, from.name+" ends at 23:59, and so does this: write 24:00 if the whole day is meant")
		}
	}
	zone, err := night.ParseLocation(cmp.Or(name, "UTC"))
	if err != nil {
		v.lose("%v", err)
	}
	return specs, zone
}

// combine makes the window of
//
//	asleep = not forceUp and (forceDown or not up or down)
//
// A range of time in which it is asleep becomes items for its dates; one in which it
// is awake cannot be in a window and is an override if it holds now. Ranges that are
// over are left out.
func (v *conversion) combine(s downscalerSpecs, zone *time.Location, now time.Time) (window night.Window, awakeUntil time.Time) {
	var asleep week
	for m := range asleep {
		asleep[m] = !s.forceUp.week[m] && (s.forceDown.week[m] || !s.up.week[m] || s.down.week[m])
	}
	if asleep.count() > 0 {
		window = asleep.window()
	}
	down := ahead(slices.Concat(s.down.ranges, s.forceDown.ranges), now)
	for _, r := range down {
		items, err := dateItems(r, zone)
		switch {
		case s.forceUp.week.count() > 0:
			v.lose("the downtime %s, which force-uptime may overrule", r)
		case err != nil:
			v.lose("the downtime %s: %v", r, err)
		default:
			for _, it := range items {
				window.Add(it)
			}
		}
	}
	awake := func(r instants) {
		switch {
		case r.from.After(now):
			v.lose("the uptime %s, which is still ahead: set %s=%s once it has begun", r, night.AnnotationAwakeUntil, r.to.Format(time.RFC3339))
		case r.to.After(awakeUntil):
			awakeUntil = r.to
		}
	}
	for _, r := range ahead(s.forceUp.ranges, now) {
		awake(r)
	}
	for _, r := range ahead(s.up.ranges, now) {
		if s.down.week.count()+s.forceDown.week.count()+len(down) > 0 {
			v.lose("the uptime %s, which a downtime may overrule", r)
		} else {
			awake(r)
		}
	}
	return window, awakeUntil
}

// ahead are the ranges that are not over.
func ahead(ranges []instants, now time.Time) []instants {
	return slices.DeleteFunc(slices.Clone(ranges), func(r instants) bool { return !r.to.After(now) })
}

// parseExcludeUntil reads a time in one of py-kube-downscaler's forms, all of them UTC, or
// in GoKubeDownscaler's, which is RFC 3339.
func parseExcludeUntil(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if t, err := night.ParseInstant(text); err == nil {
		return t, nil
	}
	return time.Time{}, errors.New("want such as 2026-12-24, 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00")
}
