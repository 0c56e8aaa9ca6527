package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The programs of a control plane, by the names that users know.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
)

// program says where a program's source is: a package of a module, whose version
// test/go.mod pins.
type program struct {
	name, module, pkg string
	minutes           int // to build on two cores
}

const (
	etcdModule       = "go.etcd.io/etcd/server/v3"
	kubernetesModule = "k8s.io/kubernetes"
	// kubernetesMinutes is what all of Kubernetes' programs have in common, and the first
	// of them to be built takes longer.
	kubernetesMinutes = 5
)

var programs = []program{
	{Etcd, etcdModule, "", 2},
	{APIServer, kubernetesModule, "/cmd/kube-apiserver", 2},
	{Kubectl, kubernetesModule, "/cmd/kubectl", 1},
	{ControllerManager, kubernetesModule, "/cmd/kube-controller-manager", 2},
	{Scheduler, kubernetesModule, "/cmd/kube-scheduler", 1},
}

// storagePrograms are those without which there is no control plane, and what people
// look at it with. envtest has the same.
var storagePrograms = []string{Etcd, APIServer, Kubectl}

// buildNews is how often a build says that it goes on.
const buildNews = 30 * time.Second

// Build makes the programs of the given names, or all, as far as they are not there yet,
// and returns the path of each. They are taken from $KUBEBUILDER_ASSETS where it has them,
// else built once from their Go modules into the user's cache. Progress goes to log.
func Build(ctx context.Context, log io.Writer, names ...string) (map[string]string, error) {
	wanted := slices.Clone(programs)
	if len(names) > 0 {
		wanted = slices.DeleteFunc(wanted, func(p program) bool { return !slices.Contains(names, p.name) })
	}
	paths, err := prebuilt(wanted, os.Getenv("KUBEBUILDER_ASSETS"))
	if err != nil {
		return nil, err
	}
	wanted = slices.DeleteFunc(wanted, func(p program) bool { return paths[p.name] != "" })
	if len(wanted) == 0 {
		return paths, nil
	}

	out, err := goCommand(ctx, "", "env", "GOMOD", "GOVERSION")
	if err != nil {
		return nil, err
	}
	env := strings.Fields(out)
	if len(env) != 2 {
		return nil, fmt.Errorf("not inside the test module: go env says %q", out)
	}
	root, goVersion := filepath.Dir(env[0]), env[1]
	if out, err = goCommand(ctx, root, "list", "-m", "-f", "{{.Version}}", etcdModule, kubernetesModule); err != nil {
		return nil, err
	}
	list := strings.Fields(out)
	if len(list) != 2 {
		return nil, fmt.Errorf("finding the versions to build: go list says %q", out)
	}
	versions := map[string]string{etcdModule: list[0], kubernetesModule: list[1]}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache: %w", err)
	}
	for _, p := range wanted {
		paths[p.name] = filepath.Join(cache, "schedule-night", fmt.Sprintf("%s-%s-%s-%s-%s", p.name, versions[p.module], goVersion, runtime.GOOS, runtime.GOARCH))
	}
	missing := slices.DeleteFunc(wanted, func(p program) bool {
		_, err := os.Stat(paths[p.name])
		return err == nil
	})

	begun, first := time.Now(), true
	for i, p := range missing {
		if p.module == kubernetesModule && first {
			p.minutes, first = p.minutes+kubernetesMinutes, false
		}
		what := fmt.Sprintf("building %s %s (%d of %d)", p.name, versions[p.module], i+1, len(missing))
		fmt.Fprintf(log, "%s, once; with nothing cached this takes about %d min on two cores\n", what, p.minutes)
		start := time.Now()
		stop := every(buildNews, func() { fmt.Fprintf(log, "%s: %v so far\n", what, time.Since(start).Round(time.Second)) })
		err := p.build(ctx, root, versions[p.module], paths[p.name])
		stop()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "built %s (%d of %d) in %v\n", p.name, i+1, len(missing), time.Since(start).Round(time.Second))
	}
	if len(missing) > 1 {
		fmt.Fprintf(log, "built all %d in %v\n", len(missing), time.Since(begun).Round(time.Second))
	}
	return paths, nil
}

// prebuilt are the paths of those programs that the folder has, if one is named.
func prebuilt(wanted []program, folder string) (map[string]string, error) {
	paths := map[string]string{}
	if folder == "" {
		return paths, nil
	}
	if _, err := os.Stat(folder); err != nil {
		return nil, fmt.Errorf("looking into $KUBEBUILDER_ASSETS: %w", err)
	}
	for _, p := range wanted {
		path, err := exec.LookPath(filepath.Join(folder, p.name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking into $KUBEBUILDER_ASSETS: %w", err)
		}
		paths[p.name] = path
	}
	return paths, nil
}

// every calls f again and again until the returned function is called.
func every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
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
