// Command schedule-night scales annotated Deployments down at night and back up in
// the morning.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // workqueue_*, rest_client_*, leader_election_*
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"schedule-night/internal/cli"
	"schedule-night/internal/cli/convert"
	"schedule-night/internal/cli/plan"
	"schedule-night/internal/cli/release"
	"schedule-night/internal/events"
	"schedule-night/internal/leader"
	"schedule-night/internal/metrics"
	"schedule-night/internal/queue"
	"schedule-night/internal/web"
	"schedule-night/internal/workload"
)

const (
	// shutdownPatience is how long a signal waits for writes in flight and the last
	// events; with the release of the Lease it stays under ten seconds.
	shutdownPatience = 4 * time.Second
	eventsPatience   = 1500 * time.Millisecond // of it, for the events
	// askAgain is how often what is not allowed is asked for again, by one request.
	askAgain = 5 * time.Minute
	// podToken is where a Pod has its credentials.
	podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path
)

func main() {
	// The first signal stops in good order; with it the handler is gone, and a
	// second ends the process at once.
	stop, unregister := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, unregister)
	name, args := cli.Invocation(os.Args)
	cmd := newCommand()
	cli.SetName(cmd, name)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(stop)
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		if errors.As(err, new(cli.UsageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	o := &options{}
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
		Args:          cli.NoArgs(""),
		Version:       cli.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.log.Apply(os.Stderr); err != nil {
				return err
			}
			return o.run(cmd.Context(), clock.RealClock{})
		},
	}
	cli.Compose(cmd, o.groups()...)
	cmd.AddCommand(release.NewCommand(decide), plan.NewCommand(decide), convert.NewCommand())
	cli.CompleteFlags(cmd)
	return cmd
}

// options are the flags of the controller.
type options struct {
	schedule   cli.ScheduleOptions
	cluster    cli.ClusterOptions
	controller controllerOptions
	election   leader.Options
	log        cli.LogOptions
}

func (o *options) groups() []cli.Group {
	return []cli.Group{
		{Heading: "schedule defaults", Options: &o.schedule},
		{Heading: "cluster", Options: &o.cluster},
		{Heading: "controller", Options: &o.controller},
		{Heading: "leader election", Options: &o.election},
		{Heading: "logging", Options: &o.log},
	}
}

// controllerOptions say how the controller works.
type controllerOptions struct {
	Workers       int
	Resync        time.Duration
	HPAAware      bool
	ListenAddress string
	StatusPage    bool
}

// AddFlags implements cli.Options.
func (o *controllerOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", 16, "Deployments reconciled at the same time")
	fs.DurationVar(&o.Resync, "resync", 30*time.Second, "how often every schedule is checked against the clock, without requests")
	fs.BoolVar(&o.HPAAware, "hpa-aware", true, "leave the day's count to a HorizontalPodAutoscaler where there is one")
	fs.StringVar(&o.ListenAddress, "listen-address", ":8080", `address for /livez, /readyz, /metrics and the status page; "" is off`)
	fs.BoolVar(&o.StatusPage, "status-page", true, "serve what sleeps until when, as a page at / and as /schedule.json")
}

// Validate implements cli.Options.
func (o *controllerOptions) Validate() error {
	var errs []error
	if o.Workers < 1 || o.Workers > 1000 {
		errs = append(errs, cli.FlagError("workers", o.Workers, "want 1 to 1000"))
	}
	if o.Resync < time.Second {
		errs = append(errs, cli.FlagError("resync", o.Resync, "want 1s or more"))
	}
	if o.ListenAddress != "" {
		if _, _, err := net.SplitHostPort(o.ListenAddress); err != nil {
			errs = append(errs, cli.FlagError("listen-address", o.ListenAddress, "want host:port or :port: %w", err))
		}
	}
	return errors.Join(errs...)
}

// run wires the parts together and runs them until stop is done. What is scheduled
// goes by clk; the election goes by the machine's own clock.
func (o *options) run(stop context.Context, clk clock.WithTicker) error {
	config, namespace, err := o.cluster.RESTConfig()
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
	// The HTTP server is there first, to tell that we wait for the API server.
	contact := &cli.Contact{}
	handler := web.NewSwitch(o.early(contact))
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	if err := o.serve(ctx, cancel, &background, handler); err != nil {
		return err
	}
	starting, stopStarting := context.WithCancel(ctx)
	defer context.AfterFunc(stop, stopStarting)()
	var user string
	err = contact.Await(starting, func(ctx context.Context) (err error) { user, err = cli.Identity(ctx, reader); return err })
	if err != nil {
		return unlessStopped(stop, err)
	}
	defaults := o.schedule.Defaults
	logger.Info("Starting schedule-night", "version", cli.ModuleVersion(), "server", config.Host, "user", user,
		"window", defaults.Window.String(), "timezone", defaults.Location.String(), "nightReplicas", defaults.NightReplicas)

	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25) // why, and what GOMEMLIMIT adds: docs/operations.md#memory
	}

	leadership := leader.New(o.election)
	writerConfig := rest.CopyConfig(config)
	writerConfig.Timeout = cli.RequestTimeout
	writerConfig.Wrap(leadership.Guard)
	writer, err := kubernetes.NewForConfig(writerConfig)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}

	// Renewals must not wait behind the workers' requests.
	leaseConfig := rest.CopyConfig(config)
	leaseConfig.Timeout = o.election.RequestTimeout()
	leases, err := coordinationv1client.NewForConfig(leaseConfig)
	if err != nil {
		return fmt.Errorf("making the Lease's client: %w", err)
	}

	self := workload.Self{} // from a kubeconfig, somebody's who runs no Pod
	if config.BearerTokenFile == podToken {
		if self = workload.SelfOf(namespace, user); self.ServiceAccount == "default" {
			return errors.New("the ServiceAccount default is other Pods' too, which would never be managed: run it as one of its own")
		}
	}
	factory, err := o.newInformerFactory(reader, self)
	if err != nil {
		return err
	}
	autoscalers, err := o.autoscalers(ctx, starting, contact, reader, factory, clk)
	if err != nil {
		return unlessStopped(stop, err)
	}
	keys := queue.New(clk)
	recorder := events.New(writer.CoreV1(), workload.FieldManager, clk, func() bool { return keys.Urgent() > 0 })
	recorder.Start(ctx)
	counters := metrics.New()
	controller := NewController(ControllerConfig{
		Client:      workload.Client{Client: writer, Self: self},
		Informer:    factory.Apps().V1().Deployments().Informer(),
		Autoscalers: autoscalers,
		Settle:      o.controller.Resync,
		Excluded:    sets.New(o.cluster.AllExcluded()...),
		Events:      recorder,
		Queue:       keys,
		Metrics:     counters,
		Clock:       clk,
		Defaults:    defaults,
		Workers:     o.controller.Workers,
	})
	counters.Register(controller.Totals, recorder.Lost)

	handler.To(o.handler(controller, leadership))

	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if err := factory.WaitForCacheSyncWithContext(starting).AsError(); err != nil {
		return unlessStopped(stop, fmt.Errorf("syncing the caches: %w", err))
	}
	logger.Info("Caches synced")

	err = leadership.Run(ctx, stop, leases, leading{controller, recorder}, shutdownPatience)
	if err == nil {
		logger.Info("Stopped")
	}
	return err
}

// unlessStopped is the error, nil if it comes of the signal to stop.
func unlessStopped(stop context.Context, err error) error {
	if stop.Err() != nil {
		klog.FromContext(stop).Info("Stopped before all was there")
		return nil
	}
	return err
}

// serve serves the handler in the background, if it is to be, and cancels all when that
// fails.
func (o *options) serve(ctx context.Context, cancel context.CancelFunc, background *sync.WaitGroup, handler http.Handler) error {
	if o.controller.ListenAddress == "" {
		return nil
	}
	listener, err := net.Listen("tcp", o.controller.ListenAddress)
	if err != nil {
		return fmt.Errorf("--listen-address: %w", err)
	}
	logger := klog.FromContext(ctx)
	logger.Info("Serving HTTP", "address", listener.Addr().String())
	background.Go(func() {
		if err := web.Serve(ctx, listener, handler); err != nil {
			logger.Error(err, "The HTTP server failed")
			cancel()
		}
	})
	return nil
}

// leading is what a leader does: the controller's passes, then the delivery of the events
// that wait. These are writes too, and must not follow the release of the Lease.
type leading struct {
	*Controller
	events *events.Deliverer
}

// Run is the controller's, and delivers its last events.
func (l leading) Run(ctx context.Context) error {
	err := l.Controller.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, eventsPatience)
	defer cancel()
	l.events.Shutdown(ctx)
	return err
}

// autoscalers finds out whether the cluster's may be read. As long as not, each workload may
// have one; that is asked again until ctx is done. Nil if they are not to be looked at.
func (o *options) autoscalers(ctx, starting context.Context, contact *cli.Contact, client kubernetes.Interface, factory informers.SharedInformerFactory, clk clock.WithTicker) (*workload.Autoscalers, error) {
	if !o.controller.HPAAware {
		return nil, nil
	}
	found := workload.NewAutoscalers(clk, o.controller.Resync)
	var allowed bool
	ask := func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, cli.RequestTimeout)
		defer cancel()
		allowed, err = workload.MayReadAutoscalers(ctx, client, o.cluster.Namespace)
		return err
	}
	attach := func() error { return found.Attach(factory.Autoscaling().V2().HorizontalPodAutoscalers()) }
	if err := contact.Await(starting, ask); err != nil {
		return nil, err
	}
	if allowed {
		return found, attach()
	}
	logger := klog.FromContext(ctx)
	logger.Info("Not allowed to read HorizontalPodAutoscalers: the day's counts are left alone, only raised on waking; --hpa-aware=false says that there are none", "askAgain", askAgain)
	ticker := clk.NewTicker(askAgain)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			err := ask(ctx)
			if err == nil && allowed {
				err = attach()
			}
			switch {
			case err != nil:
				logger.V(2).Info("Asking for HorizontalPodAutoscalers failed", "err", err)
			case allowed:
				logger.Info("Allowed to read HorizontalPodAutoscalers now")
				factory.StartWithContext(ctx)
				return
			}
		}
	}()
	return found, nil
}

// early answers what is asked over HTTP before there is an API server.
func (o *options) early(contact *cli.Contact) http.Handler {
	var page *web.Page
	if o.controller.StatusPage {
		page = web.NewPage(nil, nil, nil, func() bool { return false })
	}
	return web.NewHandler(nil, []web.Check{{Name: "api-server", Fail: func() error {
		return cmp.Or(contact.Waiting(), errors.New("starting"))
	}}}, page)
}

// handler answers what is asked over HTTP.
func (o *options) handler(controller *Controller, leadership *leader.Leadership) http.Handler {
	var page *web.Page
	if o.controller.StatusPage {
		page = web.NewPage(controller, controller.Defaults.Location, controller.Clock, controller.HasSynced)
	}
	livez := []web.Check{{Name: "leader-election", Fail: leadership.Healthy}, {Name: "workers", Fail: controller.Healthy}}
	readyz := []web.Check{{Name: "informers", Fail: func() error {
		if !controller.HasSynced() {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}}}
	return web.NewHandler(livez, readyz, page)
}

// newInformerFactory makes informers that keep only what the controller reads. They see
// what is excluded too: what sleeps there is to be woken.
func (o *options) newInformerFactory(client kubernetes.Interface, self workload.Self) (informers.SharedInformerFactory, error) {
	name, err := cache.NewInformerName("schedule-night")
	if err != nil {
		return nil, fmt.Errorf("naming the informers: %w", err)
	}
	return informers.NewSharedInformerFactoryWithOptions(client, o.controller.Resync,
		informers.WithNamespace(o.cluster.Namespace),
		informers.WithTransform(self.Transform),
		informers.WithInformerName(name),
	), nil
}
