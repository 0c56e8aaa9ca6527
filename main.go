// Command schedule-night scales annotated Deployments down at night and back up in
// the morning.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"schedule-night/internal/leader"
)

const (
	// shutdownPatience is how long a signal waits for writes in flight and the last
	// events; with the release of the Lease it stays under ten seconds.
	shutdownPatience = 4 * time.Second
	eventsPatience   = 1500 * time.Millisecond // of it, for the events
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

func newCommand() *cobra.Command {
	o := &options{}
	var flags cliflag.NamedFlagSets
	o.schedule.addFlags(flags.FlagSet("schedule defaults"))
	o.cluster.addFlags(flags.FlagSet("cluster"))
	o.addControllerFlags(flags.FlagSet("controller"))
	o.election.AddFlags(flags.FlagSet("leader election"))
	o.log.addFlags(flags.FlagSet("logging"))

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

// run wires the parts together and runs them until stop is done. What is scheduled
// goes by clk; the election goes by the machine's own clock.
func (o *options) run(stop context.Context, clk clock.WithTicker) error {
	config, namespace, err := o.cluster.restConfig()
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
		"window", o.schedule.defaults.Window.String(), "timezone", o.schedule.timezone, "nightReplicas", o.schedule.night)

	if os.Getenv("GOGC") == "" {
		// Most of the heap is the cache, which stays. Collecting four times as often as
		// usual costs processor time at a boundary, hardly any between, and leaves less
		// garbage to hold.
		debug.SetGCPercent(25)
	}

	leadership := leader.New(o.election)
	writerConfig := rest.CopyConfig(config)
	writerConfig.Timeout = requestTimeout
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

	factory, err := o.newInformerFactory(reader)
	if err != nil {
		return err
	}
	controller := NewController(writer, factory.Apps().V1().Deployments(), clk, o.schedule.defaults, o.Workers)
	if o.HPAAware {
		asking, cancel := context.WithTimeout(stop, requestTimeout)
		defer cancel()
		allowed, err := mayReadAutoscalers(asking, reader, o.cluster.Namespace)
		if err != nil {
			return err
		}
		if allowed {
			if controller.autoscalers, err = newAutoscalers(factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
				return err
			}
		}
	}
	events := New(writer.CoreV1(), fieldManager, clk, func() bool { return controller.queue.Urgent() > 0 })
	events.Start(ctx)
	controller.events = events
	controller.metrics.register(controller.totals, func() float64 { return float64(events.lost.Load()) })

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
			page = newStatusPage(controller, o.schedule.defaults, clk, synced)
		}
		handler := newHandler(
			[]check{{"leader-election", func() error { return leadership.Watchdog.Check(nil) }}, {"workers", controller.Healthy}},
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

	err = leadership.Run(ctx, stop, leases, work{controller, events}, shutdownPatience)
	if err == nil {
		logger.Info("Stopped")
	}
	return err
}

// work is what a leader does: the controller's passes, then the delivery of the events
// that wait. These are writes too, and must not follow the release of the Lease.
type work struct {
	*Controller
	events *Deliverer
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
	for _, namespace := range o.cluster.Excluded {
		selectors = append(selectors, "metadata.namespace!="+namespace)
	}
	return informers.NewSharedInformerFactoryWithOptions(client, o.Resync,
		informers.WithNamespace(o.cluster.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = strings.Join(selectors, ",") }),
		informers.WithTransform(trim),
		informers.WithInformerName(name),
	), nil
}

// options are the values of the controller's flags.
type options struct {
	schedule scheduleOptions
	cluster  clusterOptions
	election leader.Options
	log      logOptions

	Workers       int
	Resync        time.Duration
	HPAAware      bool
	ListenAddress string
	StatusPage    bool
}

func (o *options) addControllerFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", 16, "Deployments reconciled at the same time")
	fs.DurationVar(&o.Resync, "resync", 30*time.Second, "how often every schedule is checked against the clock, without requests")
	fs.BoolVar(&o.HPAAware, "hpa-aware", true, "leave the day's count to a HorizontalPodAutoscaler where there is one")
	fs.StringVar(&o.ListenAddress, "listen-address", ":8080", `address for /livez, /readyz, /metrics and the status page; "" is off`)
	fs.BoolVar(&o.StatusPage, "status-page", true, "serve what sleeps until when, as a page at / and as /schedule.json")
}

// validate checks all flags, so that a mistake shows at the start and not at
// nine in the evening.
func (o *options) validate() error {
	errs := []error{o.schedule.validate(), o.cluster.validate()}
	if o.Workers < 1 || o.Workers > 1000 {
		errs = append(errs, flagError("workers", o.Workers, "want 1 to 1000"))
	}
	if o.Resync < time.Second {
		errs = append(errs, flagError("resync", o.Resync, "want 1s or more"))
	}
	if o.ListenAddress != "" {
		if _, _, err := net.SplitHostPort(o.ListenAddress); err != nil {
			errs = append(errs, flagError("listen-address", o.ListenAddress, "want host:port or :port: %w", err))
		}
	}
	if o.election.LeaderElect {
		errs = append(errs, o.election.Validate())
	}
	return errors.Join(append(errs, o.log.apply(os.Stderr))...)
}
