package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/ptr"
)

// maxPlanPeriod bounds --for: a bar of a month is the most that a terminal can show.
const maxPlanPeriod = 31 * 24 * time.Hour

// planOptions are the values of the plan command's flags.
type planOptions struct {
	options
	Files          []string
	AllNamespaces  bool
	Selector, From string
	For            time.Duration
	Output         string
}

func newPlanCommand() *cobra.Command {
	o := &planOptions{}
	var flags cliflag.NamedFlagSets
	o.addPlanFlags(flags.FlagSet("plan"))
	o.addScheduleFlags(flags.FlagSet("schedule defaults"))
	o.addConnectionFlags(flags.FlagSet("cluster"))
	flags.FlagSet("cluster").Lookup("namespace").Usage = "the only namespace to look at (default: the kubeconfig context's; with -f: all)"
	o.setRest()

	cmd := &cobra.Command{
		Use:   "plan [-f FILE] [-n NAMESPACE | -A] [-l LABELS] [--from TIME] [--for 24h] [-o json] [flags]",
		Short: "Shows when Deployments will sleep and wake, without doing it",
		Long: `Shows when Deployments will sleep and wake, without doing it.

Reads the Deployments of the cluster or, with -f, of manifests: then without any
cluster, so that it can check them in a pipeline. Nothing is written. A night count
below the minimum of a HorizontalPodAutoscaler found there is raised to it. Where the
controller runs with other than the default flags, give the same ones here.

The table has a row and a bar for each Deployment that opted in; those that did
not are counted below it, and -o json lists them too, as unmanaged. A name that is
too long for the terminal is cut; -o json has it in full. What is saved is what
the containers would request if the expected replicas ran all the time.

Exit status: 0; 1 if a schedule or a document is invalid; 2 for bad usage.

  schedule-night plan -n shop
  schedule-night plan -A -l team=web --from 2026-12-24T12:00:00+01:00 --for 168h
  helm template shop | schedule-night plan -f -`,
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("plan takes no arguments, got %q; name files with -f", args)
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// There is nothing to finish: a signal may end a read from the terminal at once.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			p, err := o.planner(time.Now())
			if err != nil {
				return usageError{err}
			}
			if err := o.collect(cmd.Context(), p, cmd.InOrStdin()); err != nil {
				return err
			}
			return p.print(o.Output, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addFlags(cmd, flags)
	return cmd
}

func (o *planOptions) addPlanFlags(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&o.Files, "filename", "f", nil, "`FILE` with manifests, a directory of such, or - for stdin, instead of the cluster; may be repeated")
	fs.StringVar(&o.From, "from", "", "RFC 3339 `TIME` at which the plan starts (default: now)")
	fs.DurationVar(&o.For, "for", 24*time.Hour, "how far the plan goes, at most 744h (31 days)")
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look at all namespaces, whatever --namespace says")
	fs.StringVarP(&o.Selector, "selector", "l", "", "only Deployments with these `LABELS`, e.g. app=web,tier!=db")
	fs.BoolVar(&o.HPAAware, "hpa-aware", true, "look at HorizontalPodAutoscalers, too")
	fs.StringVarP(&o.Output, "output", "o", "", "`json`, instead of a table")
}

// planner checks the flags.
func (o *planOptions) planner(now time.Time) (*planner, error) {
	errs := []error{o.validate()}
	from, err := now, error(nil)
	if o.From != "" {
		if from, err = parseInstant(o.From); err != nil {
			errs = append(errs, fmt.Errorf("--from %q: %w", o.From, err))
		}
	}
	if o.For <= 0 || o.For > maxPlanPeriod {
		errs = append(errs, fmt.Errorf("--for %q: want more than 0s and at most 744h (31 days)", o.For))
	}
	selector, err := labels.Parse(o.Selector)
	if err != nil {
		errs = append(errs, fmt.Errorf("--selector %q: %w", o.Selector, err))
	}
	if o.Output != "" && o.Output != "json" {
		errs = append(errs, fmt.Errorf("--output %q: want json, or nothing for a table", o.Output))
	}
	p := &planner{
		defaults:  o.defaults,
		namespace: o.namespaces.Namespace,
		excluded:  o.namespaces.Excluded,
		selector:  selector,
		from:      from,
		to:        from.Add(o.For),
		rows:      []planRow{},
	}
	if o.HPAAware {
		p.autoscalers = map[string]*autoscaler{}
	}
	if o.AllNamespaces {
		p.namespace = metav1.NamespaceAll
	}
	return p, errors.Join(errs...)
}

// collect fills the plan from the files, or else from the cluster.
func (o *planOptions) collect(ctx context.Context, p *planner, stdin io.Reader) error {
	if len(o.Files) > 0 {
		p.reader().addFiles(o.Files, stdin)
		return nil
	}
	client, namespace, err := o.connect(o.AllNamespaces)
	if err != nil {
		return err
	}
	p.namespace = namespace
	return p.addCluster(ctx, client)
}

// planner gathers what will happen to Deployments in (from, to].
type planner struct {
	defaults  Schedule
	namespace string // "" is all
	excluded  []string
	selector  labels.Selector
	from, to  time.Time

	found       []foundDeployment
	autoscalers map[string]*autoscaler // by the key of the Deployment that they target; nil: not looked at

	rows  []planRow
	errs  []error  // schedules and documents that are invalid, with where they are
	notes []string // for stderr, too, but nothing wrong
}

// foundDeployment waits, trimmed, for all autoscalers to be known. Where says what its
// error is to start with.
type foundDeployment struct {
	*appsv1.Deployment
	where string
}

// States of a planRow.
const (
	planAsleep    = "asleep"
	planAwake     = "awake"
	planInvalid   = "invalid"
	planUnmanaged = "unmanaged"
)

// planRow is what the plan says about one Deployment. Its JSON form is a contract:
// all keys are always there, empty or 0 where there is nothing to say.
type planRow struct {
	Namespace     string           `json:"namespace"`
	Name          string           `json:"name"`
	Timezone      string           `json:"timezone"`
	State         string           `json:"state"`
	Replicas      int32            `json:"replicas"`
	Expected      int32            `json:"expected"`
	NightReplicas int32            `json:"nightReplicas"`
	Error         string           `json:"error"`
	Transitions   []planTransition `json:"transitions"`

	schedule *Schedule // nil if there is none that can be read
	next     time.Time // as State.Next
	saved    savings
}

// planTransition is a change of state, with the count that goes with it.
type planTransition struct {
	At       time.Time `json:"at"`
	To       string    `json:"to"`
	Replicas int32     `json:"replicas"`
}

// savings are hours of what does not run.
type savings struct{ replicas, cores, gibibytes float64 }

// add takes a Deployment in, if it is one that was asked for.
func (p *planner) add(d *appsv1.Deployment, where string) {
	d.Namespace = cmp.Or(d.Namespace, metav1.NamespaceDefault)
	if p.namespace != "" && p.namespace != d.Namespace || slices.Contains(p.excluded, d.Namespace) || !p.selector.Matches(labels.Set(d.Labels)) {
		return
	}
	trimmed := trimDeployment(d)
	trimmed.Spec.Replicas = d.Spec.Replicas // of those that did not opt in, too
	p.found = append(p.found, foundDeployment{trimmed, where})
}

// addAutoscaler takes in what an autoscaler means for the Deployment it targets.
func (p *planner) addAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	if p.autoscalers == nil {
		return
	}
	hpa.Namespace = cmp.Or(hpa.Namespace, metav1.NamespaceDefault)
	for _, key := range targetKeys(hpa) {
		p.autoscalers[key] = newAutoscaler(hpa)
	}
}

// plan works out what will happen to all that was found.
func (p *planner) plan() {
	for _, d := range p.found {
		row := newPlanRow(d.Deployment, p.defaults, p.autoscalers[keyOf(d.Deployment)], p.from, p.to)
		p.rows = append(p.rows, row)
		if row.Error != "" {
			p.errs = append(p.errs, fmt.Errorf("%s%s/%s: %s", d.where, d.Namespace, d.Name, row.Error))
		}
	}
	p.found = nil
}

func newPlanRow(d *appsv1.Deployment, defaults Schedule, hpa *autoscaler, from, to time.Time) planRow {
	row := planRow{Namespace: d.Namespace, Name: d.Name, State: planUnmanaged, Replicas: ptr.Deref(d.Spec.Replicas, 1), Transitions: []planTransition{}}
	schedule, err := scheduleOf(d, defaults)
	switch {
	case d.DeletionTimestamp != nil:
		return row
	case err != nil:
		row.State, row.Error = planInvalid, err.Error()
		return row
	case !schedule.On:
		return row
	}
	hpa.adjust(&schedule)
	state, err := schedule.At(from)
	if err != nil {
		row.Error = err.Error()
	}
	row.schedule, row.next = &schedule, state.Next
	row.Timezone, row.Expected, row.NightReplicas = schedule.Location.String(), schedule.Expected, schedule.NightReplicas

	var asleep time.Duration
	for i, s := range stretches(&schedule, from, to) {
		if i == 0 {
			row.State = s.state
		} else {
			row.Transitions = append(row.Transitions, planTransition{s.from.UTC(), s.state, schedule.Replicas(s.state == planAsleep)})
		}
		if s.state == planAsleep {
			asleep += s.to.Sub(s.from)
		}
	}
	cores, gibibytes := requests(&d.Spec.Template.Spec)
	hours := asleep.Hours() * (float64(schedule.Expected) - float64(schedule.NightReplicas))
	row.saved = savings{hours, hours * cores, hours * gibibytes}
	return row
}

// stretch is a time through which the state is the same.
type stretch struct {
	state    string
	from, to time.Time
}

// stretches follows a schedule through [from, to]. A change at to itself is a last
// stretch of no length.
func stretches(s *Schedule, from, to time.Time) []stretch {
	var list []stretch
	for {
		state, err := s.At(from)
		next := stretch{planAwake, from, to}
		switch {
		case err != nil:
			next.state = planInvalid
		case state.Asleep:
			next.state = planAsleep
		}
		if state.Next.IsZero() || state.Next.After(to) {
			return append(list, next)
		}
		next.to = state.Next
		list = append(list, next)
		from = state.Next
	}
}

// reader adds the Deployments that it reads.
func (p *planner) reader() *manifestReader {
	report := func(err error) { p.errs = append(p.errs, err) }
	addAutoscaler := func(document []byte, where string) {
		var hpa autoscalingv2.HorizontalPodAutoscaler // what is read of it is the same in v1
		if err := unmarshalObject(document, &hpa, where); err != nil {
			report(err)
			return
		}
		p.addAutoscaler(&hpa)
	}
	return &manifestReader{report: report, kinds: map[string]func([]byte, string){
		"autoscaling/v1 HorizontalPodAutoscaler": addAutoscaler,
		"autoscaling/v2 HorizontalPodAutoscaler": addAutoscaler,
		"apps/v1 Deployment": func(document []byte, where string) {
			var d appsv1.Deployment
			if err := unmarshalObject(document, &d, where); err != nil {
				report(err)
				return
			}
			p.add(&d, where+": ")
		},
	}}
}

// addCluster adds Deployments of a cluster and their autoscalers.
func (p *planner) addCluster(ctx context.Context, client kubernetes.Interface) error {
	if p.autoscalers != nil {
		err := eachListed(ctx, "HorizontalPodAutoscalers", client.AutoscalingV2().HorizontalPodAutoscalers(p.namespace).List, metav1.ListOptions{}, p.addAutoscaler)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			p.notes = append(p.notes, fmt.Sprintf("without HorizontalPodAutoscalers, which may raise a count: %v", err))
		} else if err != nil {
			return err
		}
	}
	options := metav1.ListOptions{LabelSelector: p.selector.String()}
	return eachListed(ctx, "Deployments", client.AppsV1().Deployments(p.namespace).List, options, func(d *appsv1.Deployment) { p.add(d, "") })
}

// eachListed lists page by page, and calls f with each item. What says what is listed.
func eachListed[L, T runtime.Object](ctx context.Context, what string, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, f func(T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, options, func(item runtime.Object) error {
		f(item.(T))
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// manifestReader reads manifests and hands out the objects of the kinds that are
// asked for; what cannot be read is reported, and the rest is gone on with.
type manifestReader struct {
	// kinds has what to do with an object by "<apiVersion> <kind>"; where says where
	// it was found, for errors.
	kinds  map[string]func(document []byte, where string)
	report func(error)
}

// addFiles reads files, the manifests in directories, and stdin for "-".
func (r *manifestReader) addFiles(names []string, stdin io.Reader) {
	for _, name := range names {
		if name == "-" {
			text, err := io.ReadAll(stdin)
			r.addFile("stdin", text, err)
			continue
		}
		files, err := manifests(name)
		if err != nil {
			r.report(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			r.addFile(file, text, err)
		}
	}
}

// manifests is the file of that name, or those that a directory of that name holds.
func manifests(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil { // no directory; what else is wrong shows when it is read
		return []string{name}, nil
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json files in this directory", name)
	}
	return files, nil
}

// preamble is what stands before the first "---" without being a document.
var preamble = regexp.MustCompile(`\A(?:[ \t]*(?:#.*)?\r?\n)+---`)

// addFile reads one file's documents, which are counted from 1.
func (r *manifestReader) addFile(name string, text []byte, err error) {
	if err != nil {
		r.report(fmt.Errorf("reading %s: %w", name, err))
		return
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(preamble.ReplaceAll(text, []byte("---"))), 4096)
	for n := 1; ; n++ {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		where := fmt.Sprintf("%s, document %d", name, n)
		if err == nil {
			r.addDocument(document.Raw, where)
			continue
		}
		r.report(fmt.Errorf("%s: %w", where, err))
		if !errors.As(err, new(yaml.YAMLSyntaxError)) { // JSON, which has no "---" to go on from
			return
		}
	}
}

// addDocument reads a document, which may be a list.
func (r *manifestReader) addDocument(document []byte, where string) {
	if len(document) == 0 { // nothing but comments
		return
	}
	var meta metav1.TypeMeta
	if err := utiljson.Unmarshal(document, &meta); err != nil {
		r.report(fmt.Errorf("%s: %w", where, err))
		return
	}
	kind := meta.APIVersion + " " + meta.Kind
	listed, isList := r.kinds[strings.TrimSuffix(kind, "List")]
	switch add := r.kinds[kind]; {
	case add != nil:
		add(document, where)
	case kind == "v1 List", isList:
		var list struct {
			Items []runtime.RawExtension `json:"items"`
		}
		if err := utiljson.Unmarshal(document, &list); err != nil {
			r.report(fmt.Errorf("%s: %w", where, err))
		}
		for i, item := range list.Items {
			where := fmt.Sprintf("%s, item %d", where, i+1)
			if isList { // the API server leaves out the kind of the items
				listed(item.Raw, where)
			} else {
				r.addDocument(item.Raw, where)
			}
		}
	case meta.APIVersion == "" || meta.Kind == "":
		r.report(fmt.Errorf("%s: apiVersion or kind is missing", where))
	}
}

// unmarshalObject reads a document into an object.
func unmarshalObject(document []byte, object any, where string) error {
	err := utiljson.Unmarshal(document, object)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "annotations of type string"):
		return fmt.Errorf(`%s: put annotation values in quotes, e.g. "true" or "3": %w`, where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// print writes the plan, and what is invalid in it.
func (p *planner) print(format string, out, errOut io.Writer) error {
	p.plan()
	slices.SortStableFunc(p.rows, func(a, b planRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var text string
	if format == "json" {
		var err error
		if text, err = p.json(); err != nil {
			return err
		}
	} else {
		text = p.table(screenOf(out, os.Getenv))
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("printing the plan: %w", err)
	}
	for _, note := range p.notes {
		fmt.Fprintln(errOut, printable(note))
	}
	for _, err := range p.errs {
		fmt.Fprintln(errOut, printable(err.Error()))
	}
	if len(p.errs) > 0 {
		return fmt.Errorf("invalid schedules or documents: %d", len(p.errs))
	}
	return nil
}

func (p *planner) json() (string, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p.rows); err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	var b strings.Builder
	for line := range strings.Lines(buffer.String()) {
		b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String(), nil
}

// printable is text with all escaped that a terminal might act on instead of showing
// it, in the manner of JSON: its encoder leaves some of these characters.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
