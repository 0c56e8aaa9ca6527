// Package plan is the command that shows when workloads will sleep and wake.
package plan

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// maxPlanPeriod bounds --for: a bar of a month is the most that a terminal can show.
const maxPlanPeriod = 31 * 24 * time.Hour

// Options are the flags of the plan command.
type Options struct {
	schedule cli.ScheduleOptions
	cluster  cli.ClusterOptions
	selected cli.SelectOptions

	Files    []string
	From     string
	For      time.Duration
	HPAAware bool
	Output   string
	names    []string // of the arguments

	start time.Time // of the plan, by Validate; zero: now
}

// NewCommand makes the plan command. It shows what decide decides.
func NewCommand(decide outlook.Decider) *cobra.Command {
	o := &Options{cluster: cli.ClusterOptions{Unset: "the kubeconfig context's; with -f: all"}}
	cmd := &cobra.Command{
		Use:   "plan [NAME...] [-f FILE] [-n NAMESPACE | -A] [-l LABELS] [--from TIME] [--for 24h] [-o json] [flags]",
		Short: "Shows when Deployments will sleep and wake, without doing it",
		Long: `Shows when Deployments will sleep and wake, without doing it.

Reads the Deployments of the cluster or, with -f, of manifests: then without any
cluster, so that it can check them in a pipeline. Nothing is written. A night count
below the minimum of a HorizontalPodAutoscaler found there is raised to it. Where the
controller runs with other than the default flags, give the same ones here.

The table has a row and a bar for each Deployment that opted in, or has opted out
and is not woken yet; the others are counted below it, and -o json lists them too, as
unmanaged. A name that is too long for the terminal is cut; -o json has it in full.
What is saved is what the containers would request if the expected replicas ran all
the time. Within a wake delay, what has no record of having slept, as in
manifests, is shown as awake.

With names, as web or deployment/web, it shows these alone and explains each: which
rule decides, where each value comes from, what the record and an autoscaler say,
and what will happen next.

Exit status: 0; 1 if a schedule or a document is invalid, or there is no Deployment of
a name; 2 for bad usage.

  schedule-night plan -n shop
  schedule-night plan -n shop web
  schedule-night plan -A -l team=web --from 2026-12-24T12:00:00+01:00 --for 168h
  helm template shop | schedule-night plan -f -`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			o.names, err = parseNames(cmd, args)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// There is nothing to finish: a signal may end a read from the terminal at once.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			p := o.planner(decide, time.Now())
			if err := o.collect(cmd.Context(), p, cmd.InOrStdin()); err != nil {
				return err
			}
			return p.print(o.Output, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	return cli.Compose(cmd, cli.Group{Heading: "plan", Options: o}, cli.Group{Heading: "schedule defaults", Options: &o.schedule}, cli.Group{Heading: "cluster", Options: &o.cluster})
}

// AddFlags implements cli.Options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	cli.AddFilesFlag(fs, &o.Files)
	fs.StringVar(&o.From, "from", "", "RFC 3339 `TIME` at which the plan starts (default: now)")
	fs.DurationVar(&o.For, "for", 24*time.Hour, "how far the plan goes, at most 744h (31 days)")
	o.selected.AddFlags(fs)
	fs.BoolVar(&o.HPAAware, "hpa-aware", true, "look at HorizontalPodAutoscalers, too")
	fs.StringVarP(&o.Output, "output", "o", "", "`json`, instead of a table")
}

// Validate implements cli.Options.
func (o *Options) Validate() error {
	errs := []error{o.selected.Validate()}
	if o.From != "" {
		var err error
		if o.start, err = night.ParseInstant(o.From); err != nil {
			errs = append(errs, cli.FlagError("from", o.From, "%w", err))
		}
	}
	if o.For <= 0 || o.For > maxPlanPeriod {
		errs = append(errs, cli.FlagError("for", o.For, "want more than 0s and at most 744h (31 days)"))
	}
	if o.Output != "" && o.Output != "json" {
		errs = append(errs, cli.FlagError("output", o.Output, "want json, or nothing for a table"))
	}
	return errors.Join(errs...)
}

// planner is empty yet. The plan starts at now if no other time was given.
func (o *Options) planner(decide outlook.Decider, now time.Time) *planner {
	from := now
	if o.From != "" {
		from = o.start
	}
	p := &planner{
		decide:   decide,
		defaults: o.schedule.Defaults,
		scope:    o.selected.Scope(&o.cluster),
		names:    o.names,
		from:     from,
		to:       from.Add(o.For),
		rows:     []outlook.Row{},
	}
	if o.HPAAware {
		p.autoscalers = map[string]*workload.Autoscaler{}
	}
	return p
}

// collect fills the plan from the files, or else from the cluster.
func (o *Options) collect(ctx context.Context, p *planner, stdin io.Reader) error {
	if len(o.Files) > 0 {
		p.reader().AddFiles(o.Files, stdin)
		return nil
	}
	client, scope, err := o.selected.Connect(&o.cluster)
	if err != nil {
		return err
	}
	p.scope = scope
	return p.addCluster(ctx, client)
}

// planner gathers what will happen to Deployments in (from, to].
type planner struct {
	decide   outlook.Decider
	defaults night.Schedule
	scope    cli.Scope
	names    []string // none: all
	from, to time.Time

	found       []found
	autoscalers map[string]*workload.Autoscaler // by the key of the Deployment that they target; nil: not looked at
	// autoscalersUnread tells that they may not be read.
	autoscalersUnread bool

	rows      []outlook.Row
	explained []*explained // of the names
	missing   []error      // of the names
	errs      []error      // schedules and documents that are invalid, with where they are
	notes     []string     // for stderr, too, but nothing wrong
}

// found waits for all autoscalers to be known. Where says what its error is to start with.
type found struct {
	*workload.Workload
	where    string
	excluded bool // its namespace is, and it was asked for by name
}

// add takes a Deployment in, if it is one that was asked for.
func (p *planner) add(d *appsv1.Deployment, where string) error {
	d.Namespace = cmp.Or(d.Namespace, metav1.NamespaceDefault)
	d.Name = cli.Name(d)
	scope, excluded := p.scope, false
	if len(p.names) > 0 {
		if !slices.Contains(p.names, d.Name) {
			return nil
		}
		excluded = slices.Contains(scope.Excluded, d.Namespace)
		scope.Excluded = nil
	}
	if !scope.Has(d) {
		return nil
	}
	p.found = append(p.found, found{workload.Self{}.FromDeployment(d), where, excluded})
	for _, note := range cli.Notes(d) {
		p.notes = append(p.notes, fmt.Sprintf("%s%s/%s: %s", where, d.Namespace, d.Name, note))
	}
	return nil
}

// addOther tells of annotations of ours on an object of a kind that is not scaled.
func (p *planner) addOther(object *metav1.PartialObjectMetadata, where string) {
	if len(p.names) > 0 {
		return
	}
	scoped := *object
	scoped.Namespace = cmp.Or(object.Namespace, metav1.NamespaceDefault)
	if object.APIVersion == "v1" && object.Kind == "Namespace" {
		scoped.Namespace = object.Name
	}
	if note := cli.NoteOnOther(object); note != "" && p.scope.Has(&scoped) {
		p.notes = append(p.notes, where+cli.Title(object)+": "+note)
	}
}

// addAutoscaler takes in what an autoscaler means for the Deployment it targets.
func (p *planner) addAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler, _ string) error {
	if p.autoscalers == nil {
		return nil
	}
	hpa.Namespace = cmp.Or(hpa.Namespace, metav1.NamespaceDefault)
	for _, key := range workload.TargetKeys(hpa) {
		p.autoscalers[key] = p.autoscalers[key].With(workload.NewAutoscaler(hpa))
	}
	return nil
}

// plan works out what will happen to all that was found.
func (p *planner) plan() {
	for _, w := range p.found {
		hpa := p.autoscalers[w.Key()]
		due := p.decide(w.Workload, p.defaults, hpa, p.from)
		if w.excluded {
			due = outlook.Decision{State: outlook.Unmanaged, Replicas: w.Replicas}
		}
		if len(p.names) > 0 {
			p.explained = append(p.explained, &explained{w.Workload, due, hpa, w.excluded})
		}
		row := outlook.NewRow(w.Workload, &due, p.from, p.to)
		p.rows = append(p.rows, row)
		if row.Error != "" {
			p.errs = append(p.errs, fmt.Errorf("%s%s/%s: %s", w.where, w.Namespace, w.Name, row.Error))
		}
	}
	p.found = nil
	for _, name := range p.names {
		if !slices.ContainsFunc(p.explained, func(e *explained) bool { return e.Name == name }) {
			err := fmt.Errorf("there is no Deployment %s", name)
			if p.scope.Namespace != "" {
				err = fmt.Errorf("%w in namespace %s", err, p.scope.Namespace)
			}
			p.missing = append(p.missing, err)
		}
	}
}

// reader adds the Deployments and autoscalers that it reads.
func (p *planner) reader() *cli.ManifestReader {
	r := cli.NewManifestReader(func(err error) { p.errs = append(p.errs, err) })
	cli.On(r, "autoscaling/v1 HorizontalPodAutoscaler", p.addAutoscaler) // what is read of it is the same in v1
	cli.On(r, "autoscaling/v2 HorizontalPodAutoscaler", p.addAutoscaler)
	cli.On(r, "apps/v1 Deployment", p.add)
	r.OnOthers(p.addOther)
	return r
}

// addCluster adds Deployments of a cluster and their autoscalers.
func (p *planner) addCluster(ctx context.Context, client kubernetes.Interface) error {
	if p.autoscalers != nil {
		err := cli.EachListed(ctx, "HorizontalPodAutoscalers", client.AutoscalingV2().HorizontalPodAutoscalers(p.scope.Namespace).List, metav1.ListOptions{},
			func(hpa *autoscalingv2.HorizontalPodAutoscaler) error { return p.addAutoscaler(hpa, "") })
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			p.autoscalersUnread = true
			p.notes = append(p.notes, fmt.Sprintf("without HorizontalPodAutoscalers, which may raise a count: %v", err))
		} else if err != nil {
			return err
		}
	}
	selectors := []string{""}
	if len(p.names) > 0 {
		selectors = nil
		for _, name := range p.names {
			selectors = append(selectors, "metadata.name="+name)
		}
	}
	for _, selector := range selectors {
		options := metav1.ListOptions{LabelSelector: p.scope.Selector.String(), FieldSelector: selector}
		err := cli.EachListed(ctx, "Deployments", client.AppsV1().Deployments(p.scope.Namespace).List, options,
			func(d *appsv1.Deployment) error { return p.add(d, "") })
		if err != nil {
			return err
		}
	}
	return nil
}

// print writes the plan, and what is invalid in it.
func (p *planner) print(format string, out, errOut io.Writer) error {
	p.plan()
	slices.SortStableFunc(p.rows, func(a, b outlook.Row) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(p.explained, func(a, b *explained) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var text string
	switch screen := screenOf(out, os.Getenv); {
	case format == "json":
		var err error
		if text, err = p.json(); err != nil {
			return err
		}
	case len(p.names) > 0:
		text = p.explanations(screen)
	default:
		text = p.table(screen)
	}
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("printing the plan: %w", err)
	}
	for _, note := range p.notes {
		fmt.Fprintln(errOut, night.Printable(note))
	}
	for _, err := range p.errs {
		fmt.Fprintln(errOut, night.Printable(err.Error()))
	}
	errs := p.missing
	if len(p.errs) > 0 {
		errs = append(errs, fmt.Errorf("invalid schedules or documents: %d", len(p.errs)))
	}
	return errors.Join(errs...)
}

// explanations is the table of what is managed, and why each is as it is.
func (p *planner) explanations(s screen) string {
	var parts []string
	if slices.ContainsFunc(p.rows, func(row outlook.Row) bool { return row.State != outlook.Unmanaged }) {
		parts = append(parts, p.table(s))
	}
	for _, e := range p.explained {
		parts = append(parts, p.explain(e, s))
	}
	return strings.Join(parts, "\n")
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
		b.WriteString(night.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String(), nil
}
