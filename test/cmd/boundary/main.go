// Command boundary measures the controller at the boundaries of a night and prints a
// table; see package boundary.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"schedule-night/test/boundary"
)

func main() {
	o := boundary.Options{Log: os.Stderr}
	flag.StringVar(&o.Program, "program", "", "the built controller")
	flag.StringVar(&o.Deploy, "deploy", "", "the folder of its manifests")
	flag.IntVar(&o.N, "n", 2000, "Deployments")
	flag.Float64Var(&o.Unannotated, "unannotated", 0, "share of them that is not annotated, from 0 to 1")
	flag.IntVar(&o.QPS, "qps", -1, "the controller's --kube-api-qps")
	flag.IntVar(&o.Workers, "workers", 16, "the controller's --workers, and the writers of the ceiling")
	flag.DurationVar(&o.Idle, "idle", 3*time.Minute, "how long to watch while nothing is due")
	flag.BoolVar(&o.Rollouts, "rollouts", false, "run the controller manager too, with rollouts at the boundary")
	flag.StringVar(&o.Profiles, "profiles", "", "folder for CPU profiles of the API server")
	flag.Parse()
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	result, err := boundary.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Print(result.Table())
}
