// Command cluster runs a local Kubernetes control plane.
//
//	cluster build       build its programs, if that was not done yet
//	cluster up DIR      start it in the background; print its kubeconfig's path when ready
//	cluster down DIR    stop it
//	cluster run DIR     run it until a signal
//	cluster attend DIR  run its storage alone, and do as standard input says until that ends
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"schedule-night/test/cluster"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "build":
		_, err := cluster.Build(ctx, os.Stderr)
		return err
	case len(args) == 2 && args[0] == "up":
		return up(ctx, args[1])
	case len(args) == 2 && args[0] == "down":
		return down(args[1])
	case len(args) == 2 && args[0] == "run":
		return foreground(ctx, args[1])
	case len(args) == 2 && args[0] == "attend":
		return attend(ctx, args[1])
	}
	return errors.New("usage: cluster build | up DIR | down DIR | run DIR | attend DIR")
}

func pidFile(dir string) string { return filepath.Join(dir, "pid") }

// foreground owns the control plane: it starts the parts and stops them.
func foreground(ctx context.Context, dir string) error {
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer c.Stop()
	if err := os.WriteFile(pidFile(dir), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return fmt.Errorf("saying that the cluster is ready: %w", err)
	}
	<-ctx.Done()
	return nil
}

// attend runs etcd and the API server alone, for a test that breaks them. It first
// prints kubectl's path; then each line of standard input is a verb and a part, as
// in "kill kube-apiserver", and is answered by a line when it is done: "ok", or what went wrong.
func attend(ctx context.Context, dir string) error {
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stderr, Storage: true})
	if err != nil {
		return err
	}
	defer c.Stop()
	fmt.Println(c.Path(cluster.Kubectl))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := "ok"
		if err := order(ctx, c, lines.Text()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Println(answer)
	}
	return lines.Err()
}

// order does to a part what a line says.
func order(ctx context.Context, c *cluster.Cluster, line string) error {
	verb, part, _ := strings.Cut(line, " ")
	switch verb {
	case "start":
		return c.StartPart(ctx, part)
	case "stop":
		c.StopPart(part)
	case "kill":
		c.KillPart(part)
	case "pause":
		return c.SignalPart(part, syscall.SIGSTOP)
	case "resume":
		return c.SignalPart(part, syscall.SIGCONT)
	default:
		return fmt.Errorf("no such verb: %q", verb)
	}
	return nil
}

func up(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding the folder: %w", err)
	}
	if pid, err := owner(dir); err == nil {
		return fmt.Errorf("a cluster runs in %s already, as process %d", dir, pid)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing the folder: %w", err)
	}
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	// Its output must not be ours: who reads that would wait as long as the cluster runs.
	log, err := os.Create(dir + ".log")
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd := exec.Command(self, "run", dir)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := owner(dir); err == nil {
			fmt.Printf("export KUBECONFIG=%s\n", filepath.Join(dir, "admin.kubeconfig"))
			return nil
		}
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return fmt.Errorf("interrupted: %w", <-ended)
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the cluster did not start: %w\n%s", err, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func down(dir string) error {
	pid, err := owner(dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping process %d: %w", pid, err)
	}
	for range 600 {
		if _, err := owner(dir); err != nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("process %d does not end", pid)
}

// owner is the process that runs the cluster in dir.
func owner(dir string) (int, error) {
	text, err := os.ReadFile(pidFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("no cluster runs in %s", dir)
	}
	if err != nil {
		return 0, fmt.Errorf("looking for the cluster: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("looking for the cluster: %w", err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		return 0, fmt.Errorf("no cluster runs in %s", dir)
	}
	return pid, nil
}
