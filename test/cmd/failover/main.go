// Command failover measures two processes of the controller while the leader, its
// network or the control plane fails, and prints a table; see package failover.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"schedule-night/test/failover"
)

func main() {
	o := failover.Options{Log: os.Stderr}
	flag.StringVar(&o.Program, "program", "", "the built controller")
	flag.StringVar(&o.Deploy, "deploy", "", "the folder of its manifests")
	flag.DurationVar(&o.LeaseDuration, "lease-duration", 15*time.Second, "the controller's --leader-elect-lease-duration")
	flag.DurationVar(&o.RenewDeadline, "renew-deadline", 10*time.Second, "the controller's --leader-elect-renew-deadline")
	flag.DurationVar(&o.RetryPeriod, "retry-period", 2*time.Second, "the controller's --leader-elect-retry-period")
	flag.DurationVar(&o.Outage, "outage", time.Minute, "how long the API server and etcd are away")
	flag.IntVar(&o.Runs, "runs", 3, "how often to go through all scenarios")
	flag.Parse()
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	outcomes, err := failover.Run(ctx, o, slices.Concat(failover.Replicas, failover.ControlPlane)...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Print(failover.Table(o, outcomes))
}
