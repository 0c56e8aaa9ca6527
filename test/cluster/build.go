package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The programs of a control plane, by the names that users know.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	Kubectl           = "kubectl"
)

// program says where a program's source is: a package of a module, and the folder
// below this one's whose go.mod pins the version.
type program struct {
	name, module, pkg, dir string
	minutes                int // to build with nothing cached, on two cores
}

const kubernetesModule = "k8s.io/kubernetes"

var programs = []program{
	{Etcd, "go.etcd.io/etcd/server/v3", "", ".", 2},
	{APIServer, kubernetesModule, "/cmd/kube-apiserver", ".", 7},
	{Kubectl, kubernetesModule, "/cmd/kubectl", ".", 1},
	{ControllerManager, kubernetesModule, "/cmd/kube-controller-manager", ".", 4},
	{Scheduler, kubernetesModule, "/cmd/kube-scheduler", ".", 1},
	{Kwok, "sigs.k8s.io/kwok", "/cmd/kwok", "kwok", 3},
}

// Build makes the programs that are not there yet and returns the path of each.
// They are taken from $KUBEBUILDER_ASSETS where it has them, else built once from
// their Go modules into the user's cache. Progress goes to log.
func Build(ctx context.Context, log io.Writer) (map[string]string, error) {
	out, err := goCommand(ctx, "", "env", "GOMOD", "GOVERSION")
	if err != nil {
		return nil, err
	}
	env := strings.Fields(out)
	if len(env) != 2 {
		return nil, fmt.Errorf("not inside the test module: go env says %q", out)
	}
	root, goVersion := filepath.Dir(env[0]), env[1]
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache: %w", err)
	}

	paths := map[string]string{}
	for _, p := range programs {
		if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
			path := filepath.Join(assets, p.name)
			if _, err := os.Stat(path); err == nil {
				paths[p.name] = path
				continue
			}
		}
		dir := filepath.Join(root, p.dir)
		version, err := goCommand(ctx, dir, "list", "-m", "-f", "{{.Version}}", p.module)
		if err != nil {
			return nil, err
		}
		version = strings.TrimSpace(version)
		path := filepath.Join(cache, "schedule-night", fmt.Sprintf("%s-%s-%s-%s-%s", p.name, version, goVersion, runtime.GOOS, runtime.GOARCH))
		paths[p.name] = path
		if _, err := os.Stat(path); err == nil {
			continue
		}
		fmt.Fprintf(log, "building %s %s, once; with nothing cached this takes about %d min on two cores\n", p.name, version, p.minutes)
		start := time.Now()
		if err := p.build(ctx, dir, version, path); err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "built %s in %v\n", p.name, time.Since(start).Round(time.Second))
	}
	return paths, nil
}

func (p program) build(ctx context.Context, dir, version, path string) error {
	flags := "-s -w"
	if p.module == kubernetesModule {
		// Without it, kubectl cannot parse the server's version.
		flags += " -X k8s.io/component-base/version.gitVersion=" + version
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	// Renamed when whole, so that a build that was interrupted is not taken for one.
	partial := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(partial)
	if _, err := goCommand(ctx, dir, "build", "-ldflags", flags, "-o", partial, p.module+p.pkg); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("putting the program in place: %w", err)
	}
	return nil
}

// goCommand runs the go command in dir and returns what it prints.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
