package main

import (
	"cmp"
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"

	"schedule-night/internal/night"
)

const (
	// requestTimeout bounds every request but watches and the Lease's.
	requestTimeout = 10 * time.Second
)

// usageError is a mistake in the command line, as opposed to a failure.
type usageError struct{ error }

// scheduleOptions are what Deployments without the annotation get.
type scheduleOptions struct {
	defaults night.Schedule
	timezone string
	night    int64
}

// clusterOptions say which cluster, and what of it.
type clusterOptions struct {
	connectionOptions
	namespaceOptions
}

// connectionOptions say which API server to talk to, as whom, and how fast.
type connectionOptions struct {
	Kubeconfig, Context string
	QPS                 float32
	Burst               int
}

// namespaceOptions say where Deployments are looked at.
type namespaceOptions struct {
	Namespace string
	Excluded  []string
}

type logOptions struct {
	Format, VModule string
	Verbosity       int
}

// addFlags gives a command its flags, and help that shows them in groups.
func addFlags(cmd *cobra.Command, flags cliflag.NamedFlagSets) {
	cmd.Flags().SortFlags = false
	for _, name := range flags.Order {
		cmd.Flags().AddFlagSet(flags.FlagSets[name])
	}
	cliflag.SetUsageAndHelpFunc(cmd, flags, 0)
}

// usageArgs makes a complaint about arguments a usageError.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func (o *scheduleOptions) addFlags(fs *pflag.FlagSet) {
	if err := o.defaults.Window.Set("21:00-07:00"); err != nil {
		panic(err) // a constant
	}
	fs.Var(&o.defaults.Window, "window", "when Deployments without the annotation sleep")
	fs.StringVar(&o.timezone, "timezone", "UTC", "IANA time zone of windows without the annotation")
	fs.Int64Var(&o.night, "night-replicas", 0, "replicas in the window, for Deployments without the annotation")
	fs.DurationVar(&o.defaults.WakeStagger, "wake-stagger", 0, "spread wake-ups evenly over this time after the end of a window")
}

func (o *clusterOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of a kubeconfig")
	fs.StringVar(&o.Context, "context", "", "context of the kubeconfig (default: its current one)")
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "the only namespace to look at (default: all)")
	fs.StringSliceVar(&o.Excluded, "exclude-namespaces", []string{metav1.NamespaceSystem}, "namespaces not to look at")
	fs.Float32Var(&o.QPS, "kube-api-qps", 100, "requests a second to the API server; -1 leaves the limit to the server")
	fs.IntVar(&o.Burst, "kube-api-burst", 200, "requests at once above --kube-api-qps")
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&o.Verbosity, "v", "v", 0, "level of detail: 0 life cycle and writes, 2 passing trouble, 4 each pass")
	fs.StringVar(&o.VModule, "vmodule", "", "levels by file, e.g. controller=4 (text format only)")
	fs.StringVar(&o.Format, "log-format", "text", "text or json")
}

// flagError is what is wrong with a flag's value.
func flagError(name string, value any, format string, args ...any) error {
	return fmt.Errorf("--%s %q: %w", name, fmt.Sprint(value), fmt.Errorf(format, args...))
}

func (o *scheduleOptions) validate() error {
	var errs []error
	var err error
	if o.defaults.Location, err = night.ParseLocation(o.timezone); err != nil {
		errs = append(errs, flagError("timezone", o.timezone, "%w", err))
	}
	if o.defaults.NightReplicas, err = night.ParseReplicas(fmt.Sprint(o.night)); err != nil {
		errs = append(errs, flagError("night-replicas", o.night, "%w", err))
	}
	if d := o.defaults.WakeStagger; d < 0 || d > night.MaxWakeDelay {
		errs = append(errs, flagError("wake-stagger", d, "want 0s to %v", night.MaxWakeDelay))
	}
	return errors.Join(errs...)
}

func (o *clusterOptions) validate() error {
	var errs []error
	for _, namespace := range append([]string{o.Namespace}, o.Excluded...) {
		if msgs := validation.IsDNS1123Label(namespace); namespace != "" && len(msgs) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a namespace: %s", namespace, msgs[0]))
		}
	}
	if o.Namespace != "" && slices.Contains(o.Excluded, o.Namespace) {
		errs = append(errs, flagError("namespace", o.Namespace, "is among --exclude-namespaces"))
	}
	if qps := o.QPS; qps != -1 && !(qps > 0) {
		errs = append(errs, flagError("kube-api-qps", qps, "want more than 0, or -1"))
	}
	if o.Burst < 1 {
		errs = append(errs, flagError("kube-api-burst", o.Burst, "want 1 or more"))
	}
	return errors.Join(errs...)
}

// apply sets up klog.
func (o *logOptions) apply(w io.Writer) error {
	var flags goflag.FlagSet
	klog.InitFlags(&flags)
	if err := flags.Set("v", fmt.Sprint(o.Verbosity)); err != nil || o.Verbosity < 0 {
		return fmt.Errorf("--v %d: want 0 or more", o.Verbosity)
	}
	if err := flags.Set("vmodule", o.VModule); err != nil {
		return fmt.Errorf("--vmodule %q: %w", o.VModule, err)
	}
	switch o.Format {
	case "text":
		return nil
	case "json":
		if o.VModule != "" {
			return errors.New("--vmodule works with --log-format text only")
		}
		// slog's levels are logr's verbosities with the sign turned.
		klog.SetSlogLogger(slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.Level(-o.Verbosity)})))
		return nil
	}
	return fmt.Errorf("--log-format %q: want text or json", o.Format)
}

// restConfig finds the API server and our identity; namespace is that of our pod
// or of the kubeconfig's context.
func (o *connectionOptions) restConfig() (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	// $KUBECONFIG is a choice; ~/.kube/config is only what is left when this is no pod.
	if o.Kubeconfig == "" && o.Context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
			if err != nil {
				return nil, "", fmt.Errorf("reading the pod's namespace: %w", err)
			}
			return o.tuned(config), strings.TrimSpace(string(namespace)), nil
		}
	}
	clientConfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err = clientConfig.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("no cluster: give --kubeconfig or $KUBECONFIG, run in a pod, or have a ~/.kube/config")
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err = clientConfig.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return o.tuned(config), namespace, nil
}

func (o *connectionOptions) tuned(config *rest.Config) *rest.Config {
	config.UserAgent = "schedule-night/" + moduleVersion()
	config.ContentType = apiruntime.ContentTypeProtobuf
	config.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	config.DisableCompression = true // as Kubernetes' own controllers: packing a watch takes time of the API server's
	config.QPS, config.Burst = o.QPS, o.Burst
	return config
}

// connect makes the client of a command, and tells which namespace it is about: "" for
// all, else the flag's, else the kubeconfig's.
func (o *clusterOptions) connect(allNamespaces bool) (client *kubernetes.Clientset, namespace string, err error) {
	config, namespace, err := o.restConfig()
	if err != nil {
		return nil, "", err
	}
	config.Timeout = requestTimeout
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, "", fmt.Errorf("making the client: %w", err)
	}
	if allNamespaces {
		return client, metav1.NamespaceAll, nil
	}
	return client, cmp.Or(o.Namespace, namespace), nil
}

// identity asks the API server who we are, which also tells that it is there.
func identity(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case err == nil:
		return review.Status.UserInfo.Username, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // it is there, and does not tell
		return "unknown", nil
	}
	return "", fmt.Errorf("cannot reach the API server: %w", err)
}
