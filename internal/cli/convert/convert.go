// Package convert is the command that prints what opts in what other tools scale.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
)

// Options are the flags of the convert command.
type Options struct {
	cluster  cli.ClusterOptions
	selected cli.SelectOptions
	Files    []string

	// The old controller's own defaults, under its own names.
	DefaultUptime, DefaultDowntime, DowntimeReplicas string
}

// NewCommand makes the convert command.
func NewCommand() *cobra.Command {
	o := &Options{cluster: cli.ClusterOptions{Unset: "the kubeconfig context's; with -f: all"}}
	cmd := &cobra.Command{
		Use:   "convert [-f FILE] [-n NAMESPACE | -A] [-l LABELS] [flags]",
		Short: "Prints what opts in the Deployments that kube-downscaler or kube-green scale",
		Long: `Prints what opts in the Deployments that kube-downscaler or kube-green scale.

Reads Deployments, Namespaces and SleepInfos of the cluster or, with -f, of manifests,
and prints a line of kubectl for each Deployment that gives it the same schedule and
takes the old annotations off. Nothing is written. What cannot be carried over stands
in a comment above it and is counted at the end; docs/migration.md tells it all.

Deployments that have the annotation ` + night.AnnotationOn + ` are left alone.

Exit status: 0; 1 if something could not be carried over or read; 2 for bad usage.

  schedule-night convert -A > switch.sh
  schedule-night convert -A --default-uptime "Mon-Fri 07:30-20:30 Europe/Berlin"
  helm template shop | schedule-night convert -f -`,
		Args: cli.NoArgs("name files with -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// There is nothing to finish: a signal may end a read from the terminal at once.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			c := o.converter(time.Now())
			if err := o.collect(cmd.Context(), c, cmd.InOrStdin()); err != nil {
				return err
			}
			return c.print(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	return cli.Compose(cmd, cli.Group{Heading: "convert", Options: o}, cli.Group{Heading: "cluster", Options: &o.cluster})
}

// AddFlags implements cli.Options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	cli.AddFilesFlag(fs, &o.Files)
	o.selected.AddFlags(fs)
	fs.StringVar(&o.DefaultUptime, "default-uptime", "always", "as given to kube-downscaler, or its $DEFAULT_UPTIME")
	fs.StringVar(&o.DefaultDowntime, "default-downtime", "never", "as given to kube-downscaler, or its $DEFAULT_DOWNTIME")
	fs.StringVar(&o.DowntimeReplicas, "downtime-replicas", "0", "as given to kube-downscaler, or its $DOWNTIME_REPLICAS")
}

// Validate implements cli.Options.
func (o *Options) Validate() error {
	errs := []error{o.selected.Validate()}
	if _, err := parseTimeSpec(o.DefaultUptime); err != nil {
		errs = append(errs, cli.FlagError("default-uptime", o.DefaultUptime, "%w", err))
	}
	if _, err := parseTimeSpec(o.DefaultDowntime); err != nil {
		errs = append(errs, cli.FlagError("default-downtime", o.DefaultDowntime, "%w", err))
	}
	if _, err := night.ParseReplicas(o.DowntimeReplicas); err != nil {
		errs = append(errs, cli.FlagError("downtime-replicas", o.DowntimeReplicas, "%w", err))
	}
	return errors.Join(errs...)
}

// converter is empty yet.
func (o *Options) converter(now time.Time) *converter {
	kubectl := []string{"kubectl"}
	if len(o.Files) == 0 {
		if o.cluster.Kubeconfig != "" {
			kubectl = append(kubectl, "--kubeconfig", o.cluster.Kubeconfig)
		}
		if o.cluster.Context != "" {
			kubectl = append(kubectl, "--context", o.cluster.Context)
		}
	}
	return &converter{
		defaults: cli.DefaultSchedule(),
		flags: map[string]string{
			downscalerUptime: o.DefaultUptime, downscalerDowntime: o.DefaultDowntime, downscalerDowntimeReplicas: o.DowntimeReplicas,
		},
		scope:      o.selected.Scope(&o.cluster),
		kubectl:    kubectl,
		now:        now,
		namespaces: map[string]map[string]string{},
	}
}

// collect gathers the objects of the files, or else of the cluster.
func (o *Options) collect(ctx context.Context, c *converter, stdin io.Reader) error {
	if len(o.Files) > 0 {
		c.reader().AddFiles(o.Files, stdin)
		return nil
	}
	client, scope, err := o.selected.Connect(&o.cluster)
	if err != nil {
		return err
	}
	c.scope = scope
	return c.addCluster(ctx, client)
}

// converter gathers Deployments and what the old tools do with them.
type converter struct {
	defaults night.Schedule    // of the controller without flags
	flags    map[string]string // of the old controller, by the annotation that they stand in for
	scope    cli.Scope
	kubectl  []string // the command that the lines start with
	now      time.Time

	deployments []*appsv1.Deployment
	namespaces  map[string]map[string]string // annotations by name
	sleepInfos  []*sleepInfo
	others      []*metav1.PartialObjectMetadata // of kinds that are not scaled here

	namespacesUnknown bool     // they may not be read
	notes             []string // what looks like ours and has no effect
	errs              []error  // documents that cannot be read
	forbidden         []error  // what of the cluster may not be read
}

// reader adds what it reads.
func (c *converter) reader() *cli.ManifestReader {
	r := cli.NewManifestReader(func(err error) { c.errs = append(c.errs, err) })
	cli.On(r, "apps/v1 Deployment", c.addDeployment)
	cli.On(r, "v1 Namespace", c.addNamespace)
	cli.On(r, "kube-green.com/v1alpha1 SleepInfo", c.addSleepInfo)
	r.OnOthers(c.addOther)
	return r
}

// checkName refuses what the API server would refuse too: names go into a shell.
func checkName(kind, namespace, name, where string) error {
	msgs := slices.Concat(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name))
	if len(msgs) > 0 {
		return fmt.Errorf("%s%s %s/%s: %s", where, kind, night.Quote(namespace), night.Quote(name), msgs[0])
	}
	return nil
}

func (c *converter) addDeployment(d *appsv1.Deployment, where string) error {
	d.Namespace = cmp.Or(d.Namespace, metav1.NamespaceDefault)
	if !c.scope.Has(d) || d.DeletionTimestamp != nil {
		return nil
	}
	if d.Name != "" || d.GenerateName == "" { // else there is nothing for a shell
		if err := checkName("Deployment", d.Namespace, d.Name, where); err != nil {
			return err
		}
	}
	c.deployments = append(c.deployments, d)
	for _, note := range cli.Notes(d) {
		c.notes = append(c.notes, fmt.Sprintf("%s%s/%s: %s", where, d.Namespace, cli.Name(d), note))
	}
	return nil
}

func (c *converter) addNamespace(ns *corev1.Namespace, where string) error {
	if err := checkName("Namespace", ns.Name, ns.Name, where); err != nil {
		return err
	}
	c.namespaces[ns.Name] = ns.Annotations
	if c.scope.HasNamespace(ns.Name) {
		c.noteOnOther(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: ns.ObjectMeta}, where)
	}
	return nil
}

// noteOnOther tells of annotations of ours that have no effect.
func (c *converter) noteOnOther(object *metav1.PartialObjectMetadata, where string) {
	if note := cli.NoteOnOther(object); note != "" {
		c.notes = append(c.notes, where+cli.Title(object)+": "+note)
	}
}

func (c *converter) addSleepInfo(info *sleepInfo, where string) error {
	info.Namespace = cmp.Or(info.Namespace, metav1.NamespaceDefault)
	if !c.scope.HasNamespace(info.Namespace) || info.DeletionTimestamp != nil {
		return nil
	}
	if err := checkName("SleepInfo", info.Namespace, info.Name, where); err != nil {
		return err
	}
	c.sleepInfos = append(c.sleepInfos, info)
	return nil
}

// addOther takes in what the old tools scale and this does not.
func (c *converter) addOther(object *metav1.PartialObjectMetadata, where string) {
	object.Namespace = cmp.Or(object.Namespace, metav1.NamespaceDefault)
	if !c.scope.Has(object) {
		return
	}
	c.noteOnOther(object, where)
	if len(downscalerNames(object.Annotations)) > 0 && !strings.EqualFold(object.Annotations[downscalerExclude], "true") {
		c.others = append(c.others, object)
	}
}

// addCluster adds the objects of a cluster, page by page. A tenant may not read all of
// them: what is forbidden is told, and the rest is gone on with.
func (c *converter) addCluster(ctx context.Context, client kubernetes.Interface) error {
	err := c.addNamespaces(ctx, client)
	if apierrors.IsForbidden(err) {
		c.namespacesUnknown = true
		c.forbidden = append(c.forbidden, err)
	} else if err != nil {
		return err
	}
	err = c.addSleepInfos(ctx, client)
	switch {
	case apierrors.IsForbidden(err) && !c.sleepInfosServed(client):
	case apierrors.IsForbidden(err):
		c.forbidden = append(c.forbidden, err)
	case err != nil:
		return err
	}
	options := metav1.ListOptions{LabelSelector: c.scope.Selector.String()}
	return cli.EachListed(ctx, "Deployments", client.AppsV1().Deployments(c.scope.Namespace).List, options, func(d *appsv1.Deployment) error { return c.addDeployment(d, "") })
}

func (c *converter) addNamespaces(ctx context.Context, client kubernetes.Interface) error {
	if c.scope.Namespace != "" {
		ns, err := client.CoreV1().Namespaces().Get(ctx, c.scope.Namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("reading the Namespace: %w", err)
		}
		return c.addNamespace(ns, "")
	}
	return cli.EachListed(ctx, "Namespaces", client.CoreV1().Namespaces().List, metav1.ListOptions{}, func(ns *corev1.Namespace) error { return c.addNamespace(ns, "") })
}

// addSleepInfos adds those of a cluster that has kube-green, with a request by hand:
// there is no typed client for them here.
func (c *converter) addSleepInfos(ctx context.Context, client kubernetes.Interface) error {
	path := "/apis/kube-green.com/v1alpha1/"
	if c.scope.Namespace != "" {
		path += "namespaces/" + c.scope.Namespace + "/"
	}
	next := ""
	for {
		result := client.AppsV1().RESTClient().Get().AbsPath(path+"sleepinfos").SetHeader("Accept", "application/json").
			Param("limit", "500").Param("continue", next).Do(ctx)
		err := result.Error() // says more than that of Raw
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing SleepInfos: %w", err)
		}
		text, err := result.Raw()
		if err != nil {
			return fmt.Errorf("reading SleepInfos: %w", err)
		}
		var page struct {
			metav1.ListMeta `json:"metadata"`
			Items           []*sleepInfo `json:"items"`
		}
		if err := utiljson.Unmarshal(text, &page); err != nil {
			return fmt.Errorf("reading SleepInfos: %w", err)
		}
		for _, info := range page.Items {
			if err := c.addSleepInfo(info, ""); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// sleepInfosServed tells whether the cluster has kube-green, so far as discovery says so:
// what may not be read is forbidden whether there is such a kind or not.
func (c *converter) sleepInfosServed(client kubernetes.Interface) bool {
	list, err := client.Discovery().ServerResourcesForGroupVersion("kube-green.com/v1alpha1")
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "sleepinfos" })
}

// print writes the lines of kubectl to out, and to errOut how many there are and what
// could not be read.
func (c *converter) print(out, errOut io.Writer) error {
	byName := func(a, b metav1.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(cli.Name(a), cli.Name(b)))
	}
	slices.SortStableFunc(c.deployments, func(a, b *appsv1.Deployment) int { return byName(a, b) })
	slices.SortStableFunc(c.sleepInfos, func(a, b *sleepInfo) int { return byName(a, b) })

	var b strings.Builder
	comment := func(format string, args ...any) {
		b.WriteString("# " + night.Printable(fmt.Sprintf(format, args...)) + "\n")
	}
	var whole, part, none, leftOut, without, extras int
	for _, d := range c.deployments {
		v := c.convert(d)
		if v.ok && d.Name == "" {
			v.lose("it has no name that kubectl could annotate (generateName); put into its manifest %s", v.manifest())
			v.ok = false
		}
		switch {
		case v.source == "":
			without++
			continue
		case v.ok && len(v.lost) == 0:
			whole++
		case v.ok:
			part++
		case len(v.lost) > 0:
			none++
		default:
			leftOut++
		}
		comment("%s/%s: %s", d.Namespace, cli.Name(d), v.source)
		for _, note := range v.notes {
			comment("  %s", note)
		}
		for _, lost := range v.lost {
			comment("  NOT CARRIED OVER: %s", lost)
		}
		if v.ok {
			b.WriteString(c.line(d, v) + "\n")
		}
	}
	for _, info := range c.sleepInfos {
		for _, lost := range info.lost() {
			extras++
			comment("SleepInfo %s/%s: NOT CARRIED OVER: %s", info.Namespace, info.Name, lost)
		}
	}
	for _, words := range c.otherKinds() {
		comment("%s", words)
	}
	for _, words := range c.cleanup() {
		comment("when nothing needs it any more: %s", words)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("printing the lines: %w", err)
	}
	for _, note := range c.notes {
		fmt.Fprintln(errOut, night.Printable(note))
	}
	for _, err := range slices.Concat(c.forbidden, c.errs) {
		fmt.Fprintln(errOut, night.Printable(err.Error()))
	}
	fmt.Fprintf(errOut, "Deployments: %d carried over, %d in part, %d not, %d left out as before, %d without a schedule\n", whole, part, none, leftOut, without)
	if extras > 0 {
		fmt.Fprintf(errOut, "Not about Deployments' replicas, in SleepInfos: %d\n", extras)
	}
	if len(c.others) > 0 {
		fmt.Fprintf(errOut, "Of other kinds, with annotations of the old tools: %d\n", len(c.others))
	}
	n := part + none + extras + len(c.others)
	switch {
	case len(c.forbidden) > 0:
		return fmt.Errorf("not carried over: %d; invalid documents: %d; not allowed to read: %d", n, len(c.errs), len(c.forbidden))
	case n > 0 || len(c.errs) > 0:
		return fmt.Errorf("not carried over: %d; invalid documents: %d", n, len(c.errs))
	}
	return nil
}

// otherKinds says what is not carried over for being no Deployment.
func (c *converter) otherKinds() (list []string) {
	for _, o := range c.others {
		line := cli.Title(o)
		if o.Kind == "Deployment" {
			line += " of " + o.APIVersion + ": NOT CARRIED OVER: only Deployments of apps/v1 are scaled here"
		} else {
			line += ": NOT CARRIED OVER: only Deployments are scaled here"
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// printed are the annotations that a conversion may have, in the order in which they are.
var printed = []string{night.AnnotationOn, night.AnnotationExpected, night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationNightReplicas, night.AnnotationAwakeUntil, night.AnnotationDaytime}

// manifest is the annotations as YAML has them.
func (v *conversion) manifest() string {
	var list []string
	for _, name := range printed {
		if value, ok := v.annotations[name]; ok {
			list = append(list, name+": "+strconv.Quote(value))
		}
	}
	return strings.Join(list, ", ")
}

// line is the command that opts a Deployment in.
func (c *converter) line(d *appsv1.Deployment, v conversion) string {
	words := slices.Concat(c.kubectl, []string{"-n", d.Namespace, "annotate", "deployment", d.Name})
	for _, name := range printed {
		if value, ok := v.annotations[name]; ok {
			words = append(words, name+"="+value)
		}
	}
	for _, name := range v.remove {
		words = append(words, name+"-")
	}
	return shellCommand(words)
}

// cleanup are the commands that take away what the old tools read besides Deployments.
// StatefulSets, CronJobs and other namespaces' people may still need it.
func (c *converter) cleanup() (commands []string) {
	for _, ns := range slices.Sorted(maps.Keys(c.namespaces)) {
		if names := removable(c.namespaces[ns]); len(names) > 0 && c.scope.HasNamespace(ns) {
			words := slices.Concat(c.kubectl, []string{"annotate", "namespace", ns})
			for _, name := range names {
				words = append(words, name+"-")
			}
			commands = append(commands, shellCommand(words))
		}
	}
	for _, info := range c.sleepInfos {
		commands = append(commands, shellCommand(slices.Concat(c.kubectl, []string{"-n", info.Namespace, "delete", "sleepinfo", info.Name})))
	}
	return commands
}

func shellCommand(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellQuote(word)
	}
	return strings.Join(quoted, " ")
}

// shellQuote quotes a word for a POSIX shell, if it must be.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=:@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
