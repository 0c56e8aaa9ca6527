// Command demo shows the main job on a control plane that it starts and stops itself:
// Deployments go to sleep and wake up.
//
//	demo PROGRAM DEPLOY    PROGRAM is the built controller, DEPLOY the manifests' folder
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"schedule-night/test/cluster"
	"schedule-night/test/cluster/nodes"
	"schedule-night/test/cluster/workloads"
)

const (
	prefix    = "schedule-night.svc/"
	night     = time.Minute      // how long the window lasts
	lead      = 15 * time.Second // to look at the Deployments before it begins
	stopLimit = 10 * time.Second // for the controller
)

// samples are the Deployments that the demo makes.
var samples = []struct {
	name              string
	replicas, atNight int32
	annotation        string // one more, "" for none
}{
	{"web", 3, 0, ""},
	{"queue", 2, 1, prefix + "night-replicas=1"},
}

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	if ctx.Err() != nil {
		fmt.Println("\nInterrupted; everything is stopped and removed.")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: demo PROGRAM DEPLOY")
	}
	program, deploy := args[0], args[1]
	dir, err := os.MkdirTemp("", "schedule-night-demo-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)

	say("Starting a control plane: etcd, kube-apiserver and Kubernetes' controllers of Deployments. Nodes and Pods are simulated")
	plane, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stdout, Storage: true})
	if err != nil {
		return err
	}
	defer func() {
		plane.Stop()
		say("The control plane is stopped, its data removed.")
	}()
	klog.SetLogger(klog.Logger{}) // what those controllers try again is not of interest
	// Of the controller manager and the scheduler, this is all that a Deployment needs;
	// to build them would take minutes.
	for _, join := range []func(context.Context, *rest.Config) (func(), error){
		workloads.Start,
		func(ctx context.Context, config *rest.Config) (func(), error) {
			return nodes.Start(ctx, config, 2, true)
		},
	} {
		if err := plane.Join(ctx, join); err != nil {
			return err
		}
	}
	d := &demo{plane: plane, program: program, dir: dir}
	if err := d.kubectl(ctx, "apply", "-f", deploy); err != nil {
		return err
	}
	stop, err := d.startController(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return d.show(ctx)
}

type demo struct {
	plane        *cluster.Cluster
	program, dir string
}

func say(format string, args ...any) { fmt.Printf("\n== "+format+"\n", args...) }

// kubectl runs and shows a command, as a user would type it.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	shown := strings.Join(args, " ")
	if wd, err := os.Getwd(); err == nil {
		shown = strings.ReplaceAll(shown, filepath.Dir(wd)+"/", "")
	}
	fmt.Printf("\n$ kubectl %s\n", shown)
	cmd := exec.CommandContext(ctx, d.plane.Path(cluster.Kubectl), append([]string{"--kubeconfig", d.plane.Kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return nil
}

// startController runs the program under its own ServiceAccount, with the rights
// that deploy/ gives it and no more. (The Pods of deploy/'s own Deployment are only
// simulated here, like all Pods.)
func (d *demo) startController(ctx context.Context) (stop func(), err error) {
	kubeconfig, err := d.plane.ServiceAccountKubeconfig(ctx, "schedule-night", "schedule-night")
	if err != nil {
		return nil, err
	}
	say("Starting the controller as ServiceAccount schedule-night, not as an administrator")
	path := filepath.Join(d.dir, "controller.log")
	log, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("making the controller's log: %w", err)
	}
	cmd := exec.Command(d.program, "--kubeconfig", kubeconfig, "--listen-address", "")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us to pass on
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	return func() {
		say("Stopping the controller. Its log:")
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(stopLimit):
			_ = cmd.Process.Kill()
			<-done
		}
		log.Close()
		if text, err := os.ReadFile(path); err == nil {
			fmt.Printf("%s", text)
		}
	}, nil
}

// show makes the samples and tells what happens to them until they are awake again.
func (d *demo) show(ctx context.Context) error {
	begin := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	if time.Until(begin) < lead {
		begin = begin.Add(time.Minute)
	}
	end := begin.Add(night)
	window := begin.Format("15:04") + "-" + end.Format("15:04")
	say("Two Deployments, and a night that begins at %s UTC and ends at %s", begin.Format("15:04"), end.Format("15:04"))
	for _, s := range samples {
		if err := d.create(ctx, s.name, s.replicas); err != nil {
			return err
		}
		args := []string{"annotate", "deployment", s.name, prefix + "on=true", fmt.Sprintf("%sexpected=%d", prefix, s.replicas), prefix + "window=" + window}
		if s.annotation != "" {
			args = append(args, s.annotation)
		}
		if err := d.kubectl(ctx, args...); err != nil {
			return err
		}
	}

	follow, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	changes, err := d.follow(follow)
	if err != nil {
		return err
	}
	ready := map[string]string{}
	for _, phase := range []struct {
		what string
		at   time.Time
		want func(i int) int32
	}{
		{"awake", time.Now(), func(i int) int32 { return samples[i].replicas }},
		{"asleep", begin, func(i int) int32 { return samples[i].atNight }},
		{"awake again", end, func(i int) int32 { return samples[i].replicas }},
	} {
		if wait := time.Until(phase.at); wait > time.Second {
			say("Now it is %s UTC. Waiting %v, until %s, for both to be %s", time.Now().UTC().Format("15:04:05"), wait.Round(time.Second), phase.at.Format("15:04:05"), phase.what)
		}
		limit := time.After(time.Until(phase.at) + 30*time.Second)
		for done := false; !done; {
			select {
			case c := <-changes:
				if c.ready != "" && c.ready == ready[c.deployment] {
					continue
				}
				if c.ready != "" {
					ready[c.deployment] = c.ready
				}
				fmt.Printf("   %s  %-6s %s\n", time.Now().UTC().Format("15:04:05"), c.deployment, c.text)
				done = !time.Now().Before(phase.at)
				for i, s := range samples {
					done = done && ready[s.name] == fmt.Sprintf("%d/%d", phase.want(i), phase.want(i))
				}
			case <-limit:
				return fmt.Errorf("not %s in time", phase.what)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := d.kubectl(ctx, "get", "deployments"); err != nil {
			return err
		}
	}
	if err := d.kubectl(ctx, "get", "events", "--field-selector", "source=schedule-night", "-o",
		"custom-columns=DEPLOYMENT:.involvedObject.name,REASON:.reason,MESSAGE:.message"); err != nil {
		return err
	}
	say("That was a night. The same annotations work on any cluster after: kubectl apply -f deploy/")
	return nil
}

func (d *demo) create(ctx context.Context, name string, replicas int32) error {
	labels := map[string]string{"app": name}
	_, err := d.plane.Client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/" + name}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a sample: %w", err)
	}
	return nil
}

// change is something that happened to a Deployment.
type change struct{ deployment, text, ready string }

// follow sends the READY column of Deployments, as often as one changes, and the
// events of the controller.
func (d *demo) follow(ctx context.Context) (<-chan change, error) {
	deployments, err := d.plane.Client.AppsV1().Deployments("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watching Deployments: %w", err)
	}
	events, err := d.plane.Client.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{FieldSelector: "source=schedule-night"})
	if err != nil {
		return nil, fmt.Errorf("watching events: %w", err)
	}
	changes := make(chan change)
	go func() {
		defer deployments.Stop()
		defer events.Stop()
		for {
			var e watch.Event
			select {
			case e = <-deployments.ResultChan():
			case e = <-events.ResultChan():
			case <-ctx.Done():
				return
			}
			var c change
			switch o := e.Object.(type) {
			case *appsv1.Deployment:
				ready := fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, ptr.Deref(o.Spec.Replicas, 1))
				c = change{o.Name, "READY  " + ready, ready}
			case *corev1.Event:
				c = change{o.InvolvedObject.Name, "event  " + o.Reason + ": " + o.Message, ""}
			default: // the watch has ended
				return
			}
			select {
			case changes <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, nil
}
