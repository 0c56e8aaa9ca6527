package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

// TestFlagErrors: a bad value stops the program at the start, and says what is right.
func TestFlagErrors(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--window=9pm-7am", `"9pm" is not a start; use HH:MM, 00:00 to 23:59`},
		{"--timezone=CEST", `--timezone "CEST": want the name of an IANA time zone`},
		{"--night-replicas=-1", `--night-replicas "-1": want replicas as decimal digits`},
		{"--namespace=A", `"A" is not a namespace`},
		{"--exclude-namespaces=a/b", `"a/b" is not a namespace`},
		{"--namespace=kube-system", `--namespace "kube-system": is among --exclude-namespaces`},
		{"--workers=0", `--workers "0": want 1 to 1000`},
		{"--resync=1ms", `--resync "1ms": want 1s or more`},
		{"--kube-api-qps=0", `--kube-api-qps "0": want more than 0, or -1`},
		{"--kube-api-burst=0", `--kube-api-burst "0": want 1 or more`},
		{"--listen-address=8080", `--listen-address "8080": want host:port or :port`},
		{"--leader-elect-lease-duration=5s", "--leader-elect-lease-duration 5s must be"},
		{"--log-format=xml", `--log-format "xml": want text or json`},
		{"--v=-1", "--v -1: want 0 or more"},
		{"--log-format=json --vmodule=controller=4", "--vmodule works with --log-format text only"},
		{"--vmodule=x", "--vmodule"},
		{"--no-such-flag", "unknown flag: --no-such-flag"},
		{"no-such-command", `unknown command "no-such-command"`},
	} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(tc.args))
		cmd.SetOut(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.args, err, tc.want)
		}
		if !errors.As(err, new(usageError)) {
			t.Errorf("%s: %T is not told apart from a failure", tc.args, err)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Schedule defaults flags:", "Leader election flags:", "(default 21:00-07:00)", "(default 15s)", "(default 16)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the help", want)
		}
	}
}

// TestVersion: what was stamped comes first, then what the go command knows.
func TestVersion(t *testing.T) {
	platform := "go1.26.8 " + runtime.GOOS + "/" + runtime.GOARCH
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.time", Value: "2026-11-29T21:00:00Z"}}
	for _, tc := range []struct {
		what                  string
		version, commit, date string
		main                  string
		settings              []debug.BuildSetting
		want                  string
	}{
		{"make", "v1.2.3", "def456", "2026-11-30T07:00:00Z", "(devel)", nil,
			"v1.2.3 (commit def456, 2026-11-30T07:00:00Z, PLATFORM, client-go v0.37.2)"},
		{"go build in a checkout", "", "", "", "v0.0.0-20261129210000-abc123+dirty", checkout,
			"v0.0.0-20261129210000-abc123+dirty (commit abc123, 2026-11-29T21:00:00Z, PLATFORM, client-go v0.37.2)"},
		{"go install of a version", "", "", "", "v1.2.3", nil, "v1.2.3 (PLATFORM, client-go v0.37.2)"},
		{"go run", "", "", "", "(devel)", nil, "(devel) (PLATFORM, client-go v0.37.2)"},
		{"docker build without arguments", "", "", "", "", nil, "(devel) (PLATFORM, client-go v0.37.2)"},
	} {
		info := &debug.BuildInfo{
			GoVersion: "go1.26.8", Main: debug.Module{Version: tc.main}, Settings: tc.settings,
			Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.37.1"}, {Path: "k8s.io/client-go", Version: "v0.37.2"}},
		}
		if got, want := describeBuild(info, tc.version, tc.commit, tc.date), strings.Replace(tc.want, "PLATFORM", platform, 1); got != want {
			t.Errorf("%s: got %s, want %s", tc.what, got, want)
		}
	}

	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "schedule-night version "+version()+"\n" {
		t.Errorf("got %q", got)
	}
}

// TestNoConfig: without any configuration, one clear line.
func TestNoConfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	o := connectionOptions{}
	if _, _, err := o.restConfig(); err == nil || !strings.HasPrefix(err.Error(), "no cluster: ") {
		t.Errorf("got %v", err)
	}
	o.Kubeconfig = filepath.Join(t.TempDir(), "missing")
	if _, _, err := o.restConfig(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestContextFlag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: a,
clusters: [{name: a, cluster: {server: "https://a"}}, {name: b, cluster: {server: "https://b"}}],
contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b, namespace: nb}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	for _, tc := range []struct{ context, host, namespace string }{{"", "https://a", "default"}, {"b", "https://b", "nb"}} {
		o := connectionOptions{Context: tc.context, QPS: 100, Burst: 200}
		config, namespace, err := o.restConfig()
		if err != nil || config.Host != tc.host || namespace != tc.namespace || config.QPS != 100 {
			t.Errorf("context %q: got %v in %q, error %v", tc.context, config, namespace, err)
		}
	}
}

func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	o := logOptions{Format: "json", Verbosity: 2}
	if err := o.apply(&out); err != nil {
		t.Fatal(err)
	}
	defer func() {
		klog.ClearLogger()
		if err := (&logOptions{Format: "text"}).apply(io.Discard); err != nil {
			t.Error(err)
		}
	}()
	klog.Background().Info("Scaled", "deployment", klog.KRef("default", "web"), "to", 0)
	klog.Background().V(2).Info("Shown")
	klog.Background().V(4).Info("Not shown")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 || first["msg"] != "Scaled" || first["to"] != 0.0 {
		t.Errorf("got %q, error %v", lines, err)
	}
}

func TestHealthEndpoints(t *testing.T) {
	var ill error
	server := httptest.NewServer(newHandler([]check{{"workers", func() error { return ill }}}, []check{{"informers", func() error { return nil }}}, nil))
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		client := http.Client{Timeout: 5 * time.Second}
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if code, body := get("/livez"); code != 200 || body != "ok\n" {
		t.Errorf("/livez: %d %q", code, body)
	}
	ill = errStuck
	if code, body := get("/livez"); code != 500 || !strings.Contains(body, "workers: all workers are busy") {
		t.Errorf("/livez: %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "leader_election_master_status") && !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: %d, %d bytes", code, len(body))
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
}
