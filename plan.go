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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"

	"schedule-night/internal/night"
)

// maxPlanPeriod bounds --for: a bar of a month is the most that a terminal can show.
const maxPlanPeriod = 31 * 24 * time.Hour

// planOptions are the values of the plan command's flags.
type planOptions struct {
	schedule       scheduleOptions
	cluster        clusterOptions
	Files          []string
	AllNamespaces  bool
	Selector, From string
	For            time.Duration
	HPAAware       bool
	Output         string
}

func newPlanCommand() *cobra.Command {
	o := &planOptions{}
	var flags cliflag.NamedFlagSets
	o.addPlanFlags(flags.FlagSet("plan"))
	o.schedule.addFlags(flags.FlagSet("schedule defaults"))
	o.cluster.addFlags(flags.FlagSet("cluster"))
	flags.FlagSet("cluster").Lookup("namespace").Usage = "the only namespace to look at (default: the kubeconfig context's; with -f: all)"

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
	errs := []error{o.schedule.validate(), o.cluster.validate()}
	from, err := now, error(nil)
	if o.From != "" {
		if from, err = night.ParseInstant(o.From); err != nil {
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
		defaults:  o.schedule.defaults,
		namespace: o.cluster.Namespace,
		excluded:  o.cluster.Excluded,
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
	client, namespace, err := o.cluster.connect(o.AllNamespaces)
	if err != nil {
		return err
	}
	p.namespace = namespace
	return p.addCluster(ctx, client)
}

// planner gathers what will happen to Deployments in (from, to].
type planner struct {
	defaults  night.Schedule
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
const ()

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
		fmt.Fprintln(errOut, night.Printable(note))
	}
	for _, err := range p.errs {
		fmt.Fprintln(errOut, night.Printable(err.Error()))
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
		b.WriteString(night.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String(), nil
}
