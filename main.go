// Command schedule-night scales annotated Deployments down at night and back up in
// the morning.
package main

import (
	"cmp"
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // an image from scratch has no zones

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // workqueue_*, rest_client_*, leader_election_*
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// shutdownPatience is how long a signal waits for writes in flight and the last
	// events; with the release of the Lease it stays under ten seconds.
	shutdownPatience = 4 * time.Second
	eventsPatience   = 1500 * time.Millisecond // of it, for the events
	// requestTimeout bounds every request but watches and the Lease's.
	requestTimeout = 10 * time.Second
)

func main() {
	// The first signal stops in good order; with it the handler is gone, and a
	// second ends the process at once.
	stop, unregister := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, unregister)
	name, args := invocation(os.Args)
	cmd := newCommand()
	setName(cmd, name)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(stop)
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		if errors.As(err, new(usageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// usageError is a mistake in the command line, as opposed to a failure.
type usageError struct{ error }

// options are the values of the flags.
type options struct {
	connection connectionOptions
	defaults   Schedule
	timezone   string
	night      int64
	namespaces namespaceOptions
	election   electionOptions

	Workers       int
	Resync        time.Duration
	HPAAware      bool
	ListenAddress string
	StatusPage    bool
	Log           logOptions
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

func newCommand() *cobra.Command {
	o := &options{}
	var flags cliflag.NamedFlagSets
	o.addScheduleFlags(flags.FlagSet("schedule defaults"))
	o.addConnectionFlags(flags.FlagSet("cluster"))
	o.addControllerFlags(flags.FlagSet("controller"))
	o.addElectionFlags(flags.FlagSet("leader election"))
	o.addLogFlags(flags.FlagSet("logging"))

	cmd := &cobra.Command{
		Use:   "schedule-night",
		Short: "Scales annotated Deployments down at night and back up in the morning",
		Long: `Scales annotated Deployments down at night and back up in the morning.

Without a command it runs the controller, against --kubeconfig, else $KUBECONFIG,
else the cluster that it runs in, else ~/.kube/config. The commands, each with a
--help of its own:

  plan          shows when Deployments will sleep and wake, without doing it
  release       wakes the Deployments that sleep, and opts them out
  convert       opts in what kube-downscaler or kube-green scale now
  completion    prints the completion script for bash, zsh or fish`,
		Args:          usageArgs(cobra.NoArgs),
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			return o.run(cmd.Context(), clock.RealClock{})
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	addFlags(cmd, flags)
	cmd.AddCommand(newReleaseCommand())
	cmd.AddCommand(newPlanCommand())
	cmd.AddCommand(newConvertCommand())
	completeFlags(cmd)
	return cmd
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

// setRest gives the defaults to the options that only the controller has flags for:
// validate wants good values in all.
func (o *options) setRest() {
	var rest pflag.FlagSet
	o.addControllerFlags(&rest)
	o.addElectionFlags(&rest)
	o.addLogFlags(&rest)
}

func (o *options) addScheduleFlags(fs *pflag.FlagSet) {
	if err := o.defaults.Window.Set("21:00-07:00"); err != nil {
		panic(err) // a constant
	}
	fs.Var(&o.defaults.Window, "window", "when Deployments without the annotation sleep")
	fs.StringVar(&o.timezone, "timezone", "UTC", "IANA time zone of windows without the annotation")
	fs.Int64Var(&o.night, "night-replicas", 0, "replicas in the window, for Deployments without the annotation")
	fs.DurationVar(&o.defaults.WakeStagger, "wake-stagger", 0, "spread wake-ups evenly over this time after the end of a window")
}

func (o *options) addConnectionFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.connection.Kubeconfig, "kubeconfig", "", "path of a kubeconfig")
	fs.StringVar(&o.connection.Context, "context", "", "context of the kubeconfig (default: its current one)")
	fs.StringVarP(&o.namespaces.Namespace, "namespace", "n", "", "the only namespace to look at (default: all)")
	fs.StringSliceVar(&o.namespaces.Excluded, "exclude-namespaces", []string{metav1.NamespaceSystem}, "namespaces not to look at")
	fs.Float32Var(&o.connection.QPS, "kube-api-qps", 100, "requests a second to the API server; -1 leaves the limit to the server")
	fs.IntVar(&o.connection.Burst, "kube-api-burst", 200, "requests at once above --kube-api-qps")
}

func (o *options) addControllerFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", 16, "Deployments reconciled at the same time")
	fs.DurationVar(&o.Resync, "resync", 30*time.Second, "how often every schedule is checked against the clock, without requests")
	fs.BoolVar(&o.HPAAware, "hpa-aware", true, "leave the day's count to a HorizontalPodAutoscaler where there is one")
	fs.StringVar(&o.ListenAddress, "listen-address", ":8080", `address for /livez, /readyz, /metrics and the status page; "" is off`)
	fs.BoolVar(&o.StatusPage, "status-page", true, "serve what sleeps until when, as a page at / and as /schedule.json")
}

func (o *options) addElectionFlags(fs *pflag.FlagSet) {
	e := &o.election
	fs.BoolVar(&e.LeaderElect, "leader-elect", true, "write only while holding a Lease, so that several replicas can run")
	fs.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a standby waits after the last renewal that it saw")
	fs.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader goes on without a renewal")
	fs.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "the longest time between two tries")
	fs.StringVar(&e.Namespace, "leader-elect-resource-namespace", "", "namespace of the Lease (default: the pod's, or the kubeconfig context's)")
	fs.StringVar(&e.Name, "leader-elect-resource-name", "schedule-night", "name of the Lease")
}

func (o *options) addLogFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&o.Log.Verbosity, "v", "v", 0, "level of detail: 0 life cycle and writes, 2 passing trouble, 4 each pass")
	fs.StringVar(&o.Log.VModule, "vmodule", "", "levels by file, e.g. controller=4 (text format only)")
	fs.StringVar(&o.Log.Format, "log-format", "text", "text or json")
}

// validate checks all flags, so that a mistake shows at the start and not at
// nine in the evening.
func (o *options) validate() error {
	var errs []error
	flagErr := func(name string, value any, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s %q: %w", name, fmt.Sprint(value), fmt.Errorf(format, args...)))
	}
	var err error
	if o.defaults.Location, err = ParseLocation(o.timezone); err != nil {
		flagErr("timezone", o.timezone, "%w", err)
	}
	if o.defaults.NightReplicas, err = ParseReplicas(fmt.Sprint(o.night)); err != nil {
		flagErr("night-replicas", o.night, "%w", err)
	}
	if d := o.defaults.WakeStagger; d < 0 || d > maxWakeDelay {
		flagErr("wake-stagger", d, "want 0s to %v", maxWakeDelay)
	}
	for _, namespace := range append([]string{o.namespaces.Namespace}, o.namespaces.Excluded...) {
		if msgs := validation.IsDNS1123Label(namespace); namespace != "" && len(msgs) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a namespace: %s", namespace, msgs[0]))
		}
	}
	if o.namespaces.Namespace != "" && slices.Contains(o.namespaces.Excluded, o.namespaces.Namespace) {
		flagErr("namespace", o.namespaces.Namespace, "is among --exclude-namespaces")
	}
	if o.Workers < 1 || o.Workers > 1000 {
		flagErr("workers", o.Workers, "want 1 to 1000")
	}
	if o.Resync < time.Second {
		flagErr("resync", o.Resync, "want 1s or more")
	}
	if qps := o.connection.QPS; qps != -1 && !(qps > 0) {
		flagErr("kube-api-qps", qps, "want more than 0, or -1")
	}
	if o.connection.Burst < 1 {
		flagErr("kube-api-burst", o.connection.Burst, "want 1 or more")
	}
	if o.ListenAddress != "" {
		if _, _, err := net.SplitHostPort(o.ListenAddress); err != nil {
			flagErr("listen-address", o.ListenAddress, "want host:port or :port: %w", err)
		}
	}
	if o.election.LeaderElect {
		if err := o.election.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := o.Log.apply(os.Stderr); err != nil {
		errs = append(errs, err)
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
func (o *options) connect(allNamespaces bool) (client *kubernetes.Clientset, namespace string, err error) {
	config, namespace, err := o.connection.restConfig()
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
	return client, cmp.Or(o.namespaces.Namespace, namespace), nil
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

// run wires the parts together and runs them until stop is done. What is scheduled
// goes by clk; the election goes by the machine's own clock.
func (o *options) run(stop context.Context, clk clock.WithTicker) error {
	config, namespace, err := o.connection.restConfig()
	if err != nil {
		return err
	}
	if o.election.Namespace == "" {
		o.election.Namespace = namespace
	}
	// The parts outlive the signal: each is stopped in its turn.
	logger := klog.Background()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(stop), logger))
	defer cancel()

	reader, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	user, err := identity(stop, reader)
	if err != nil {
		return err
	}
	logger.Info("Starting schedule-night", "version", moduleVersion(), "server", config.Host, "user", user,
		"window", o.defaults.Window.String(), "timezone", o.timezone, "nightReplicas", o.night)

	if os.Getenv("GOGC") == "" {
		// Most of the heap is the cache, which stays. Collecting four times as often as
		// usual costs processor time at a boundary, hardly any between, and leaves less
		// garbage to hold.
		debug.SetGCPercent(25)
	}

	leadership := newLeadership(o.election)
	writerConfig := rest.CopyConfig(config)
	writerConfig.Timeout = requestTimeout
	writerConfig.Wrap(leadership.guard)
	writer, err := kubernetes.NewForConfig(writerConfig)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}

	// Renewals must not wait behind the workers' requests.
	leaseConfig := rest.CopyConfig(config)
	leaseConfig.Timeout = o.election.requestTimeout()
	leases, err := coordinationv1client.NewForConfig(leaseConfig)
	if err != nil {
		return fmt.Errorf("making the Lease's client: %w", err)
	}

	factory, err := o.newInformerFactory(reader)
	if err != nil {
		return err
	}
	controller := NewController(writer, factory.Apps().V1().Deployments(), clk, o.defaults, o.Workers)
	if o.HPAAware {
		allowed, err := mayReadAutoscalers(stop, reader, o.namespaces.Namespace)
		if err != nil {
			return err
		}
		if allowed {
			if controller.autoscalers, err = newAutoscalers(factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
				return err
			}
		}
	}
	events := newEventDeliverer(writer.CoreV1(), clk, func() bool { return controller.queue.urgent() > 0 })
	events.Start(ctx)
	controller.events = events
	controller.metrics.register(controller, func() float64 { return float64(events.lost.Load()) })

	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	if o.ListenAddress != "" {
		listener, err := net.Listen("tcp", o.ListenAddress)
		if err != nil {
			return fmt.Errorf("--listen-address: %w", err)
		}
		logger.Info("Serving HTTP", "address", listener.Addr().String())
		synced := controller.HasSynced
		var page *statusPage
		if o.StatusPage {
			page = newStatusPage(controller, synced)
		}
		handler := newHandler(
			[]check{{"leader-election", func() error { return leadership.watchdog.Check(nil) }}, {"workers", controller.Healthy}},
			[]check{{"informers", func() error {
				if !synced() {
					return errors.New("the caches are not synced yet")
				}
				return nil
			}}},
			page,
		)
		background.Go(func() {
			if err := serve(ctx, listener, handler); err != nil {
				logger.Error(err, "The HTTP server failed")
				cancel()
			}
		})
	}

	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	syncCtx, stopSync := context.WithCancel(ctx)
	defer context.AfterFunc(stop, stopSync)()
	if err := factory.WaitForCacheSyncWithContext(syncCtx).AsError(); err != nil {
		if stop.Err() != nil {
			return nil
		}
		return fmt.Errorf("syncing the caches: %w", err)
	}
	logger.Info("Caches synced")

	err = leadership.run(ctx, stop, leases, work{controller, events}, shutdownPatience)
	if err == nil {
		logger.Info("Stopped")
	}
	return err
}

// work is what a leader does: the controller's passes, then the delivery of the events
// that wait. These are writes too, and must not follow the release of the Lease.
type work struct {
	*Controller
	events *eventDeliverer
}

// Run is the controller's, and delivers its last events.
func (w work) Run(ctx context.Context) error {
	err := w.Controller.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, eventsPatience)
	defer cancel()
	w.events.Shutdown(ctx)
	return err
}

// newInformerFactory makes informers that see only the namespaces in question and
// keep only what the controller reads.
func (o *options) newInformerFactory(client kubernetes.Interface) (informers.SharedInformerFactory, error) {
	name, err := cache.NewInformerName("schedule-night")
	if err != nil {
		return nil, fmt.Errorf("naming the informers: %w", err)
	}
	var selectors []string
	for _, namespace := range o.namespaces.Excluded {
		selectors = append(selectors, "metadata.namespace!="+namespace)
	}
	return informers.NewSharedInformerFactoryWithOptions(client, o.Resync,
		informers.WithNamespace(o.namespaces.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = strings.Join(selectors, ",") }),
		informers.WithTransform(trim),
		informers.WithInformerName(name),
	), nil
}
