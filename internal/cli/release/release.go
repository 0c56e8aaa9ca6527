// Package release is the command that wakes what sleeps and opts it out.
package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

// Options are the flags of the release command.
type Options struct {
	schedule cli.ScheduleOptions
	cluster  cli.ClusterOptions
	selected cli.SelectOptions
	DryRun   bool
}

// NewCommand makes the release command. It wakes what sleeps by what decide decides.
func NewCommand(decide outlook.Decider) *cobra.Command {
	o := &Options{cluster: cli.ClusterOptions{Unset: "the kubeconfig context's"}}
	cmd := &cobra.Command{
		Use:   "release [-n NAMESPACE | -A] [-l LABELS] [--dry-run] [flags]",
		Short: "Wakes the Deployments that sleep, and opts them out",
		Long: `Wakes the Deployments that sleep, and takes the annotation ` + night.AnnotationOn + ` off them.

Run it before uninstalling, or nobody will wake them. It works with your own rights,
whether a controller runs or not. Deployments that are awake are left as they are.

Without the right to patch deployments/status, the record of the night stays on what is
released, and that is said. A controller that runs updates it.

Exit status: 0; 1 if one could not be woken and opted out; 2 for bad usage.`,
		Args: cli.NoArgs(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, scope, err := o.selected.Connect(&o.cluster)
			if err != nil {
				return err
			}
			r := &releaser{
				client: client, clock: clock.RealClock{}, decide: decide, defaults: o.schedule.Defaults,
				dryRun: o.DryRun, out: cmd.OutOrStdout(),
			}
			return r.run(cmd.Context(), scope)
		},
	}
	return cli.Compose(cmd, cli.Group{Heading: "release", Options: o}, cli.Group{Heading: "schedule defaults", Options: &o.schedule}, cli.Group{Heading: "cluster", Options: &o.cluster})
}

// AddFlags implements cli.Options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.selected.AddFlags(fs)
	fs.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
}

// Validate implements cli.Options.
func (o *Options) Validate() error { return o.selected.Validate() }

// releaser wakes Deployments with the rights of whoever runs it.
type releaser struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	decide   outlook.Decider
	defaults night.Schedule
	dryRun   bool
	out      io.Writer

	released, failed int
	unrecorded       int // of those released
}

// run goes through what was asked for, page by page, and reports each Deployment that
// slept.
func (r *releaser) run(ctx context.Context, scope cli.Scope) error {
	options := metav1.ListOptions{LabelSelector: scope.Selector.String()}
	err := cli.EachListed(ctx, "Deployments", r.client.AppsV1().Deployments(scope.Namespace).List, options, func(d *appsv1.Deployment) error {
		if !scope.Has(d) {
			return nil
		}
		if err := r.release(ctx, d); err != nil {
			r.failed++
			fmt.Fprintf(r.out, "deployment %s/%s: %s\n", d.Namespace, d.Name, night.Printable(err.Error())) // a webhook's words may be in it
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	verb := "released"
	if r.dryRun {
		verb = "would be released"
	}
	fmt.Fprintf(r.out, "%d %s, %d failed\n", r.released, verb, r.failed)
	if r.unrecorded > 0 {
		fmt.Fprintf(r.out, "%d of them still have a record of the night: a controller that runs updates it, or release, run with the right to patch deployments/status\n", r.unrecorded)
	}
	if r.failed > 0 {
		return errors.New("not all could be released")
	}
	return nil
}

// wake is the count to which a Deployment is to be woken; ok is false if it does not
// sleep. What would be due if it had opted out tells, or, before there is a record, what
// is due now.
func (r *releaser) wake(d *appsv1.Deployment) (replicas int32, ok bool) {
	w := workload.Self{}.FromDeployment(d)
	now := r.clock.Now()
	out := w.DeepCopy()
	delete(out.Annotations, night.AnnotationOn)
	if due := r.decide(out, r.defaults, nil, now); due.State == outlook.Released {
		return due.Replicas, true
	}
	if due := r.decide(w, r.defaults, nil, now); due.State == outlook.Asleep && w.Replicas == due.Schedule.NightReplicas {
		return due.Schedule.Expected, true
	}
	return w.Replicas, false
}

// release opts a Deployment out and wakes it in one write, then makes the condition
// say so, as the controller would. That is no failure where only the condition cannot be
// written: a role such as edit does not have that right.
func (r *releaser) release(ctx context.Context, d *appsv1.Deployment) error {
	deployments := r.client.AppsV1().Deployments(d.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		replicas, ok := r.wake(d)
		if !ok {
			return nil
		}
		was := ptr.Deref(d.Spec.Replicas, 1)
		if !r.dryRun {
			patch, err := json.Marshal(map[string]any{
				"metadata": map[string]any{"resourceVersion": d.ResourceVersion, "annotations": map[string]any{night.AnnotationOn: nil}},
				"spec":     map[string]any{"replicas": replicas},
			})
			if err != nil {
				return fmt.Errorf("encoding the patch: %w", err)
			}
			live, err := deployments.Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: workload.FieldManager})
			if apierrors.IsConflict(err) {
				if fresh, getErr := deployments.Get(ctx, d.Name, metav1.GetOptions{}); getErr == nil {
					d = fresh
				}
			}
			if err != nil {
				return fmt.Errorf("waking it: %w", err)
			}
			d = live
		}
		r.released++
		fmt.Fprintf(r.out, "deployment %s/%s: %d -> %d\n", d.Namespace, d.Name, was, replicas)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil // deleted since
	}
	if err != nil {
		return fmt.Errorf("releasing it: %w", err)
	}
	woken := workload.Self{}.FromDeployment(d)
	if r.dryRun || !woken.Record.Asleep() {
		return nil
	}
	now := r.clock.Now()
	woken.SetRecord(workload.ReleasedRecord(woken.Replicas), now)
	err = workload.Client{Client: r.client}.WriteRecord(ctx, woken, now)
	if err != nil && !apierrors.IsNotFound(err) {
		r.unrecorded++
		fmt.Fprintf(r.out, "deployment %s/%s: it is awake and opted out; only its record could not be updated: %s\n", d.Namespace, d.Name, night.Printable(err.Error()))
	}
	return nil
}
