package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attack is what one of many does with a connection to the program's port, again and again.
type attack struct {
	connections int
	do          func(ctx context.Context, conn net.Conn, n int)
}

// get asks on a connection of its own, and reads the answer or does not.
func get(path string, read bool) attack {
	return attack{300, func(ctx context.Context, conn net.Conn, n int) {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", strings.ReplaceAll(path, "#", strconv.Itoa(1+n%10)))
		if read {
			_, _ = io.Copy(io.Discard, conn)
		} else {
			<-ctx.Done()
		}
	}}
}

// attacks are what was seen to end a leader, and what lies near.
var attacks = map[string]attack{
	"headers of 1 MB": {300, func(_ context.Context, conn net.Conn, _ int) {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nCookie: ")
		piece := strings.Repeat("x", 16<<10)
		for range 64 {
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}},
	"half a header": {300, func(_ context.Context, conn net.Conn, _ int) {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nCookie: "+strings.Repeat("x", 15<<10))
		_, _ = io.Copy(io.Discard, conn)
	}},
	"metrics":                 get("/metrics", true),
	"pages":                   get("/?page=#", true),
	"all as JSON":             get("/schedule.json?state=awake", true),
	"JSON, each other pages":  get("/schedule.json?page=#", true),
	"pages that are not read": get("/?page=#", false),
	"JSON that is not read":   get("/schedule.json", false),
	"2,000 idle connections":  {2000, func(ctx context.Context, conn net.Conn, _ int) { <-ctx.Done() }},
	"requests on connections that stay": {300, func(_ context.Context, conn net.Conn, _ int) {
		answers := bufio.NewReader(conn)
		for _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil; {
			response, failed := http.ReadResponse(answers, nil)
			if failed != nil {
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}},
}

// run attacks from an address that is not the probes' until ctx is done.
func (a attack) run(ctx context.Context, address string) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var wait sync.WaitGroup
	for n := range a.connections {
		wait.Go(func() {
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { conn.Close() })
				a.do(ctx, conn, n)
				stop()
				conn.Close()
				<-time.After(50 * time.Millisecond) // this machine has other work, too
			}
		})
	}
	wait.Wait()
}

// TestAttack: whoever reaches the port neither ends the leader nor makes it large. It has
// the CPU and the memory that deploy/ gives it, and schedules that cost.
func TestAttack(t *testing.T) {
	const limit = 256 << 20
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("GOMEMLIMIT", "128MiB")
	tenant := makeTenant(t)
	var items []string
	begin := time.Now().UTC().Add(2 * time.Hour).Truncate(time.Minute) // not within this test
	for i := range 340 {
		items = append(items, windowIn(begin.Add(time.Duration(2*i)*time.Minute), time.Minute))
	}
	for i := range 100 {
		makeDeployment(t, tenant.ns, fmt.Sprint("web-", i), 0, "on=true", "expected=0", "window="+strings.Join(items, ","))
	}
	c := tenant.start(t, quickElection...)
	c.waitLeading()
	leases := plane.Client.CoordinationV1().Leases(tenant.ns)
	before, err := leases.Get(t.Context(), "schedule-night", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	probe := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // as the kubelet does
	for name, attack := range attacks {
		ok := t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			over := make(chan struct{})
			go func() { defer close(over); attack.run(ctx, strings.TrimPrefix(c.url, "http://")) }()
			defer func() { cancel(); <-over }()
			var slowest, oldest time.Duration
			for ctx.Err() == nil {
				for _, path := range []string{"/livez", "/readyz"} {
					begun, waited := time.Now(), starved(c.cmd.Process.Pid)
					response, err := probe.Get(c.url + path)
					if err != nil {
						t.Fatal(err)
					}
					if response.Body.Close(); response.StatusCode != http.StatusOK {
						t.Fatalf("%s: %s", path, response.Status)
					}
					slowest = max(slowest, time.Since(begun)-waited())
				}
				lease, err := leases.Get(t.Context(), "schedule-night", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if *lease.Spec.HolderIdentity != *before.Spec.HolderIdentity {
					t.Fatal("another holds the Lease")
				}
				oldest = max(oldest, time.Since(lease.Spec.RenewTime.Time))
				<-time.After(50 * time.Millisecond)
			}
			peak := peakMemory(t, c.cmd.Process.Pid)
			t.Logf("slowest probe %v, oldest Lease %v, memory %d MB", slowest, oldest, peak>>20)
			if slowest > time.Second {
				t.Errorf("a probe took %v", slowest)
			}
			if oldest > 3*time.Second { // it is renewed each second
				t.Errorf("the Lease was %v old", oldest)
			}
			if peak > limit {
				t.Errorf("%d MB of memory", peak>>20)
			}
		})
		if !ok {
			return
		}
	}
	for _, path := range []string{"/", "/schedule.json", "/metrics"} {
		if code, body := c.get(path); code != http.StatusOK {
			t.Errorf("%s afterwards: %d %s", path, code, body)
		}
	}
}

// starved tells how long a process has waited since for a CPU that others had: the control
// plane and the attackers run on this machine too.
func starved(pid int) (since func() time.Duration) {
	all := func() (sum time.Duration) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, thread := range threads {
			var ran, waited int64
			text, _ := os.ReadFile(thread) // it may have ended
			_, _ = fmt.Sscan(string(text), &ran, &waited)
			sum += time.Duration(waited)
		}
		return sum
	}
	begin := all()
	return func() time.Duration { return all() - begin }
}

// peakMemory is the most that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kB, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kB << 10
}
