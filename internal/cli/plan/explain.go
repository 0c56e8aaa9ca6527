package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// deploymentTypes are the ways in which kubectl spells the type.
var deploymentTypes = []string{"deployment", "deployments", "deploy", "deployment.apps", "deployments.apps", "deployment.v1.apps", "deployments.v1.apps"}

// parseNames reads the arguments: NAME, TYPE/NAME, or TYPE and then names, as kubectl has
// them. What looks like a file is refused with a hint.
func parseNames(cmd *cobra.Command, args []string) (names []string, err error) {
	if len(args) > 1 && slices.Contains(deploymentTypes, args[0]) {
		args = args[1:]
	}
	for _, arg := range args {
		kind, name, typed := strings.Cut(arg, "/")
		switch {
		case typed && slices.Contains(deploymentTypes, kind):
		case typed && slices.Contains([]string{"statefulset", "statefulsets", "sts", "daemonset", "replicaset", "pod", "rollout"}, kind):
			return nil, cli.UsageErrorf("%q: only Deployments are scaled", arg)
		case typed, strings.ContainsAny(arg, `.\`), arg == "-":
			return nil, cli.UsageErrorf("%s takes names of Deployments, got %q; name files with -f", cmd.Name(), arg)
		default:
			name = arg
		}
		if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
			return nil, cli.UsageErrorf("%q is not a name: %s", arg, msgs[0])
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// explained is a Deployment that was asked for by its name.
type explained struct {
	*workload.Workload
	due      outlook.Decision
	hpa      *workload.Autoscaler
	excluded bool // its namespace is
}

// labelWidth is that of the first column of an explanation.
const labelWidth = len("Autoscaler") + gap

// explain says why a Deployment is as it is, and what will happen to it, in a few lines.
func (p *planner) explain(e *explained, s screen) string {
	var b strings.Builder
	write := func(label, format string, args ...any) {
		text := night.Printable(fmt.Sprintf(format, args...))
		for line := range strings.Lines(fold(text, s.width-labelWidth)) {
			b.WriteString(label + strings.Repeat(" ", labelWidth-utf8.RuneCountInString(label)) + line)
			label = ""
		}
	}
	zone := p.defaults.Location
	if e.due.Schedule.On {
		zone = e.due.Schedule.Location
	}
	write("Deployment", "%s/%s, at %s", e.Namespace, e.Name, moment(p.from, zone))
	write("State", "%s", p.why(e))
	write("Replicas", "%s", e.replicas())
	write("Next", "%s", e.next())
	if e.due.Schedule.On {
		label := "Schedule"
		for _, v := range p.values(e) {
			write(label, "%s", v)
			label = ""
		}
	}
	write("Record", "%s", p.record(e))
	if e.due.Schedule.On {
		write("Autoscaler", "%s", p.autoscaler(e))
	}
	return b.String()
}

// moment is a time for people.
func moment(t time.Time, zone *time.Location) string {
	t = t.In(zone)
	layout := "Mon 2006-01-02 15:04"
	if t.Truncate(time.Minute) != t {
		layout += ":05"
	}
	return t.Format(layout) + " " + zone.String()
}

// why names the rule that decides.
func (p *planner) why(e *explained) string {
	due := &e.due
	on, opted := e.Annotations[night.AnnotationOn]
	switch {
	case e.excluded:
		return "not managed: its namespace is among --exclude-namespaces"
	case e.DeletionTimestamp != nil:
		return "not managed: it is being deleted"
	case due.Err != nil:
		return "invalid, and not scaled until this is right: " + due.Err.Error()
	case due.State == outlook.Released:
		return "released: it has been opted out, and its record says that it sleeps"
	case !due.Schedule.On && opted:
		return fmt.Sprintf("not managed: %s is %q", night.AnnotationOn, on)
	case !due.Schedule.On:
		return "not managed: it has no annotation " + night.AnnotationOn
	}
	schedule := &due.Schedule
	byWindow := p.byWindow(schedule, e.Record.Asleep() && schedule.AwakeAt.IsZero())
	switch {
	case due.Override() == "":
		return byWindow
	case due.Now.Asleep:
		return "asleep, by asleep-until; without it: " + byWindow
	}
	return "awake, by awake-until; without it: " + byWindow
}

// byWindow is what the window alone makes of the start of the plan, for one that sleeps by
// then, or does not.
func (p *planner) byWindow(schedule *night.Schedule, sleeps bool) string {
	alone := *schedule
	alone.AwakeUntil, alone.AsleepUntil, alone.AwakeAt = time.Time{}, time.Time{}, time.Time{}
	state, err := alone.At(p.from)
	if unslept := alone; err == nil && state.Asleep && !sleeps && !unslept.Unslept(p.from, state).Asleep {
		return fmt.Sprintf("awake: the wake delay after the window's %s holds who slept, and puts nobody to sleep", p.items(&alone))
	}
	if err != nil || !state.Asleep {
		unexcepted := alone
		unexcepted.Except = night.Days{}
		if items := p.items(&unexcepted); items != "" {
			return fmt.Sprintf("awake, since except takes this night out of the window's %s", items)
		}
		return "awake, outside of the window"
	}
	undelayed := alone
	undelayed.WakeDelay = 0
	if state, err := undelayed.At(p.from); err == nil && !state.Asleep {
		return fmt.Sprintf("asleep, by the wake delay after the window's %s", p.items(&alone))
	}
	return "asleep, by the window's " + p.items(&alone)
}

// items names those of the window in which the start of the plan lies, "" if there are none.
func (p *planner) items(schedule *night.Schedule) string {
	var list []string
	for i := range schedule.Window.Len() {
		one := *schedule
		one.Window = night.Window{}
		one.Window.Add(*schedule.Window.Item(i))
		if state, err := one.At(p.from); err == nil && state.Asleep {
			list = append(list, night.Quote(one.Window.String()))
		}
	}
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "item " + list[0]
	case 2:
		return "items " + list[0] + " and " + list[1]
	}
	return fmt.Sprintf("items %s, %s and %d more", list[0], list[1], len(list)-2)
}

// replicas compares the count that there is with the one that is due.
func (e *explained) replicas() string {
	due := &e.due
	switch {
	case e.excluded, due.State == outlook.Unmanaged, due.State == outlook.Invalid:
		return fmt.Sprintf("%d, which nothing changes", e.Replicas)
	case due.Scale:
		return fmt.Sprintf("%d; %d are due, and the controller scales it at once", e.Replicas, due.Replicas)
	case due.Replicas != e.Replicas && due.State == outlook.Awake:
		return fmt.Sprintf("%d, which is left alone: in the day it is wake-only", e.Replicas)
	case due.Replicas != e.Replicas:
		return fmt.Sprintf("%d, which is left to the autoscaler", e.Replicas)
	}
	return fmt.Sprintf("%d, as is due", e.Replicas)
}

// next says when the state changes, and to which count.
func (e *explained) next() string {
	due := &e.due
	switch {
	case e.excluded, due.State == outlook.Unmanaged:
		return "nothing, as long as it is not managed"
	case due.State == outlook.Invalid && due.Now.Next.IsZero():
		return "nothing, until the annotation is right"
	case due.State == outlook.Invalid:
		return moment(due.Now.Next, due.Schedule.Location) + ": one of the two has passed"
	case due.State == outlook.Released:
		return "its record is updated, and it is left alone"
	case due.Now.Next.IsZero():
		return "no change within 366 days"
	}
	schedule := &due.Schedule
	at, replicas := moment(due.Now.Next, schedule.Location), schedule.Replicas(!due.Now.Asleep)
	switch {
	case !due.Now.Asleep:
		return fmt.Sprintf("%s: asleep, at %d", at, replicas)
	case schedule.Daytime == night.DaytimeWakeOnly:
		return fmt.Sprintf("%s: awake, raised to %d if it has fewer, then left alone", at, replicas)
	}
	return fmt.Sprintf("%s: awake, held at %d", at, replicas)
}

// values are what the schedule consists of, and where each value comes from.
func (p *planner) values(e *explained) (list []string) {
	schedule := &e.due.Schedule
	add := func(annotation, value, otherwise string) {
		from := "annotation"
		if _, ok := e.Annotations[annotation]; !ok {
			from = otherwise
		}
		list = append(list, fmt.Sprintf("%s %s (%s)", strings.TrimPrefix(annotation, night.Prefix), value, from))
	}
	// given adds what has no default.
	given := func(annotation, note string) {
		if value, ok := e.Annotations[annotation]; ok {
			add(annotation, night.Quote(value)+note, "")
		}
	}
	until := func(t time.Time) string {
		if t.After(p.from) {
			return ""
		}
		return ", which has passed"
	}
	add(night.AnnotationExpected, strconv.Itoa(int(schedule.Expected)), "")
	add(night.AnnotationWindow, night.Quote(schedule.Window.String()), "--window")
	add(night.AnnotationTimezone, schedule.Location.String(), "--timezone")
	own, err := night.ParseSchedule(e.Annotations, p.defaults) // before an autoscaler and the stagger changed it
	if err != nil {
		return list // then there is no schedule
	}
	add(night.AnnotationNightReplicas, strconv.Itoa(int(own.NightReplicas)), "--night-replicas")
	given(night.AnnotationExcept, "")
	given(night.AnnotationAwakeUntil, until(own.AwakeUntil))
	given(night.AnnotationAsleepUntil, until(own.AsleepUntil))
	switch {
	case own.Daytime != night.DaytimeDefault:
		add(night.AnnotationDaytime, string(own.Daytime), "")
	case e.hpa != nil:
		add(night.AnnotationDaytime, string(night.DaytimeWakeOnly), "because of the autoscaler")
	default:
		add(night.AnnotationDaytime, string(night.DaytimeEnforce), "default")
	}
	given(night.AnnotationWakeDelay, "")
	if share := schedule.WakeDelay - own.WakeDelay; share > 0 {
		list = append(list, fmt.Sprintf("its place in --wake-stagger: %v after the end of the night", share))
	}
	return list
}

// record says what the controller has written down.
func (p *planner) record(e *explained) string {
	r := e.Record
	if r == nil {
		return "none: no controller has written one here"
	}
	text := fmt.Sprintf("%s is %s (%s) since %s: %s", workload.ConditionAsleep, r.Status, r.Reason, r.Since.UTC().Format(time.RFC3339), r.Message)
	if applied, slept := r.Slept(); slept && applied.Replicas != e.Replicas {
		text += fmt.Sprintf("; it has %d now", e.Replicas)
	}
	return text
}

// autoscaler says what one changes.
func (p *planner) autoscaler(e *explained) string {
	switch {
	case p.autoscalers == nil:
		return "not looked at, by --hpa-aware=false"
	case e.hpa == nil && p.autoscalersUnread:
		return "unknown: HorizontalPodAutoscalers may not be read"
	case e.hpa == nil:
		return "none"
	}
	text := fmt.Sprintf("HorizontalPodAutoscaler %s keeps %d or more: in the day its count is left alone", e.hpa.Name, e.hpa.Min)
	if e.hpa.ToZero {
		text = fmt.Sprintf("HorizontalPodAutoscaler %s may go down to 0: in the day its count is left alone, 0 too", e.hpa.Name)
	}
	if e.due.Conflict != "" {
		text += "; " + e.due.Conflict
	}
	return text
}
