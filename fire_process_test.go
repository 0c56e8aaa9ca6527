//go:build fire

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
)

// fireChild, in the environment of this test's own binary, makes it a controller with
// the flags that it holds.
const fireChild = "SCHEDULE_NIGHT_UNDER_FIRE"

func init() { // before the tests' own main, which is not for a controller
	if flags := os.Getenv(fireChild); flags != "" {
		if err := runUnderFire(strings.Fields(flags)); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// runUnderFire is the program itself, but for its clock: each line of standard input
// is the time that it is now.
func runUnderFire(args []string) error {
	o := &options{}
	var flags pflag.FlagSet
	for _, g := range o.groups() {
		g.AddFlags(&flags)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, g := range o.groups() {
		if err := g.Validate(); err != nil {
			return err
		}
	}
	if err := o.log.Apply(os.Stderr); err != nil {
		return err
	}
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	lines := bufio.NewScanner(os.Stdin)
	clk := steadyClock{clocktesting.NewFakeClock(time.Time{})}
	tick := func() bool {
		if !lines.Scan() {
			return false
		}
		now, err := time.Parse(time.RFC3339Nano, lines.Text())
		if err != nil {
			panic(err) // only the test writes to it
		}
		clk.SetTime(now)
		return true
	}
	if !tick() {
		return io.ErrUnexpectedEOF
	}
	go func() {
		for tick() {
		}
		os.Exit(3) // the test is gone
	}()
	return o.run(stop, clk)
}

// storage is a real etcd and API server, which a command of their own keeps.
type storage struct {
	dir, kubectl string
	config       *rest.Config // of the administrator
	orders       io.Writer
	answers      *bufio.Scanner
}

func startStorage(t *testing.T, command string) *storage {
	t.Helper()
	s := &storage{dir: t.TempDir()}
	cmd := exec.Command(command, "attend", s.dir)
	cmd.Dir = "test" // whose go.mod says which versions
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Errorf("the control plane: %v", err)
		}
	})
	s.orders, s.answers = in, bufio.NewScanner(out)
	if !s.answers.Scan() {
		t.Fatal("the control plane did not start")
	}
	s.kubectl = s.answers.Text()
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig()); err != nil {
		t.Fatal(err)
	}
	s.config.QPS, s.config.Timeout = -1, 5*time.Second
	return s
}

func (s *storage) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// order does to a part what the line says, and returns when it is done.
func (s *storage) order(line string) error {
	if _, err := fmt.Fprintln(s.orders, line); err != nil {
		return err
	}
	if !s.answers.Scan() {
		return io.ErrUnexpectedEOF
	}
	if answer := s.answers.Text(); answer != "ok" {
		return errors.New(answer)
	}
	return nil
}

// replica is one of the controller's replicas: one process after another, each behind
// the same proxy.
type replica struct {
	name    string
	dir     string
	proxy   *faultProxy
	flags   string
	started int // processes
	exits   map[string]int

	cmd    *exec.Cmd
	clock  chan time.Time // holds the latest that was not read yet
	exited chan struct{}
	err    error // why it exited
	heldUp bool  // is not to be started for now
}

func newReplica(t *testing.T, s *storage, name, token, flags string) *replica {
	t.Helper()
	target, err := url.Parse(s.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := s.transport()
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{name: name, dir: s.dir, proxy: newFaultProxy(target, transport), flags: flags, exits: map[string]int{}}
	path := filepath.Join(s.dir, name+".kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.proxy.server.URL, InsecureSkipTLSVerify: true}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "schedule-night"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	r.flags += " --kubeconfig=" + path
	t.Cleanup(func() {
		r.end(syscall.SIGKILL)
		r.proxy.close()
	})
	return r
}

// transport reaches the API server as nobody: who asks is in the request.
func (s *storage) transport() (http.RoundTripper, error) {
	return rest.TransportFor(rest.AnonymousClientConfig(s.config))
}

// start starts a process, unless one runs.
func (r *replica) start(now time.Time) error {
	if r.running() || r.heldUp {
		return nil
	}
	r.started++
	r.proxy.mu.Lock()
	r.proxy.sender = fmt.Sprintf("schedule-night/%s.%d", r.name, r.started)
	r.proxy.mu.Unlock()
	log, err := os.OpenFile(r.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fireChild+"="+r.flags)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.cmd, r.exited, r.clock = cmd, make(chan struct{}), make(chan time.Time, 1)
	r.tell(now)
	go func(exited <-chan struct{}, clock <-chan time.Time) {
		defer in.Close()
		for {
			select {
			case now := <-clock:
				if _, err := fmt.Fprintln(in, now.Format(time.RFC3339Nano)); err != nil {
					return // it has exited
				}
			case <-exited:
				return
			}
		}
	}(r.exited, r.clock)
	go func(exited chan<- struct{}) {
		r.err = cmd.Wait()
		close(exited)
	}(r.exited)
	return nil
}

func (r *replica) log() string { return filepath.Join(r.dir, r.name+".log") }

// running tells whether a process runs, and notes how it has exited.
func (r *replica) running() bool {
	if r.cmd == nil {
		return false
	}
	select {
	case <-r.exited:
		how := "in good order"
		if r.err != nil {
			how = r.err.Error()
		}
		r.exits[how]++
		r.cmd = nil
		return false
	default:
		return true
	}
}

// tell sets the process's clock.
func (r *replica) tell(now time.Time) {
	if r.cmd == nil {
		return
	}
	select {
	case <-r.clock: // nobody needs the one before
	default:
	}
	r.clock <- now
}

func (r *replica) signal(signal syscall.Signal) {
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(signal) // it may have exited
	}
}

// end ends the process and waits for that.
func (r *replica) end(signal syscall.Signal) {
	if r.cmd == nil {
		return
	}
	r.signal(syscall.SIGCONT)
	r.signal(signal)
	select {
	case <-r.exited:
	case <-time.After(20 * time.Second):
		r.signal(syscall.SIGKILL)
		<-r.exited
	}
	r.running()
}

// tail is the end of the processes' log.
func (r *replica) tail() string {
	text, _ := os.ReadFile(r.log()) // what is missing then shows
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
