package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// releaseOptions are the values of the release command's flags.
type releaseOptions struct {
	schedule              scheduleOptions
	cluster               clusterOptions
	AllNamespaces, DryRun bool
	Selector              string
}

func newReleaseCommand() *cobra.Command {
	o := &releaseOptions{}
	var flags cliflag.NamedFlagSets
	fs := flags.FlagSet("release")
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look at all namespaces, whatever --namespace says")
	fs.StringVarP(&o.Selector, "selector", "l", "", "only Deployments with these `LABELS`, e.g. app=web,tier!=db")
	fs.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	o.schedule.addFlags(flags.FlagSet("schedule defaults"))
	o.cluster.addFlags(flags.FlagSet("cluster"))
	flags.FlagSet("cluster").Lookup("namespace").Usage = "the only namespace to look at (default: the kubeconfig context's)"

	cmd := &cobra.Command{
		Use:   "release [-n NAMESPACE | -A] [-l LABELS] [--dry-run] [flags]",
		Short: "Wakes the Deployments that sleep, and opts them out",
		Long: `Wakes the Deployments that sleep, and takes the annotation ` + night.AnnotationOn + ` off them.

Run it before uninstalling, or nobody will wake them. It works with your own rights,
whether a controller runs or not. Deployments that are awake are left as they are.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			selector, selectorErr := labels.Parse(o.Selector)
			if err := errors.Join(o.schedule.validate(), o.cluster.validate(), selectorErr); err != nil {
				return usageError{err}
			}
			client, namespace, err := o.cluster.connect(o.AllNamespaces)
			if err != nil {
				return err
			}
			r := &releaser{client: client, clock: clock.RealClock{}, defaults: o.schedule.defaults, dryRun: o.DryRun, out: cmd.OutOrStdout()}
			return r.run(cmd.Context(), namespace, o.cluster.Excluded, selector)
		},
	}
	addFlags(cmd, flags)
	return cmd
}

// releaser wakes Deployments with the rights of whoever runs it.
type releaser struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	defaults night.Schedule
	dryRun   bool
	out      io.Writer

	released, failed int
}

// run goes through the namespace, page by page, and reports each Deployment that slept.
func (r *releaser) run(ctx context.Context, namespace string, excluded []string, selector labels.Selector) error {
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return r.client.AppsV1().Deployments(namespace).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		d := obj.(*appsv1.Deployment)
		if slices.Contains(excluded, d.Namespace) {
			return nil
		}
		if err := r.release(ctx, d); err != nil {
			r.failed++
			fmt.Fprintf(r.out, "deployment %s/%s: %v\n", d.Namespace, d.Name, err)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	verb := "released"
	if r.dryRun {
		verb = "would be released"
	}
	fmt.Fprintf(r.out, "%d %s, %d failed\n", r.released, verb, r.failed)
	if r.failed > 0 {
		return errors.New("not all could be released")
	}
	return nil
}

// wake is the count to which a Deployment is to be woken; ok is false if it does not
// sleep. The record tells, or, before there is one, the schedule.
func (r *releaser) wake(d *appsv1.Deployment) (replicas int32, ok bool) {
	replicas = ptr.Deref(d.Spec.Replicas, 1)
	if record, slept := sleepRecord(d); slept {
		return record.wakeTo(replicas, d.Annotations), true
	}
	s, err := scheduleOf(d, r.defaults)
	if err != nil || !s.On {
		return replicas, false
	}
	state, err := s.At(r.clock.Now())
	if err != nil || !state.Asleep || replicas != s.NightReplicas {
		return replicas, false
	}
	return s.Expected, true
}

// release opts a Deployment out and wakes it in one write, then makes the condition
// say so, as the controller would.
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
			live, err := deployments.Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
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
	if r.dryRun || !isAsleep(d) {
		return nil
	}
	return writeCondition(ctx, r.client, d, releasedCondition(ptr.Deref(d.Spec.Replicas, 1)), r.clock.Now())
}
