// Package program runs the built controller as a process of its own.
package program

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const poll = 10 * time.Millisecond

// Process is a running controller.
type Process struct {
	PID   int
	Begun time.Time
	Done  chan struct{} // closed when it has ended

	cmd *exec.Cmd
	url string
	log string
}

// Start starts the program at path with the arguments and a free port of loopback to
// listen on. What it prints goes to the file log.
func Start(path, log string, args ...string) (*Process, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a port: %w", err)
	}
	address := l.Addr().String()
	l.Close()
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("making the log: %w", err)
	}
	defer file.Close() // the child has its own
	p := &Process{
		Begun: time.Now(), Done: make(chan struct{}),
		cmd: exec.Command(path, append([]string{"--listen-address", address}, args...)...), url: "http://" + address, log: log,
	}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	p.PID = p.cmd.Process.Pid
	go func() { defer close(p.Done); _ = p.cmd.Wait() }()
	return p, nil
}

// Ready returns when the process says that it is ready.
func (p *Process) Ready(ctx context.Context) error {
	return p.Until(ctx, func() bool {
		response, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Until polls until ok, as long as the process lives.
func (p *Process) Until(ctx context.Context, ok func() bool) error {
	for !ok() {
		select {
		case <-time.After(poll):
		case <-p.Done:
			return fmt.Errorf("the controller ended: %s", p.Log())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the controller: %w\n%s", ctx.Err(), p.Log())
		}
	}
	return nil
}

// Log is what the process has printed so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Signal sends it a signal.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signalling the controller: %w", err)
	}
	return nil
}

// Wait waits for it to end, and returns its exit code, -1 after a signal that kills.
func (p *Process) Wait(limit time.Duration) (code int, err error) {
	select {
	case <-p.Done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("the controller did not end within %v: %s", limit, p.Log())
	}
}

// Stop tells it to end, and wants it to do so in good order.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	code, err := p.Wait(15 * time.Second)
	if err == nil && code != 0 {
		err = fmt.Errorf("the controller exited %d: %s", code, p.Log())
	}
	return err
}

// Kill ends it, if it has not ended yet.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Done
}
