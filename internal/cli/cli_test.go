package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

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
}

// TestNoConfig: without any configuration, one clear line.
func TestNoConfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	o := ClusterOptions{}
	if _, _, err := o.RESTConfig(); err == nil || !strings.HasPrefix(err.Error(), "no cluster: ") {
		t.Errorf("got %v", err)
	}
	o.Kubeconfig = filepath.Join(t.TempDir(), "missing")
	if _, _, err := o.RESTConfig(); err == nil || strings.Contains(err.Error(), "\n") {
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
		o := ClusterOptions{Context: tc.context, QPS: 100, Burst: 200}
		config, namespace, err := o.RESTConfig()
		if err != nil || config.Host != tc.host || namespace != tc.namespace || config.QPS != 100 {
			t.Errorf("context %q: got %v in %q, error %v", tc.context, config, namespace, err)
		}
	}
}

// TestJSONLog: a line of JSON for each message, as Kubernetes' components write them.
func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	var o LogOptions
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse([]string{"--logging-format=json", "-v=2"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.Validate(), o.Apply(&out)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Error(err)
		}
	}()
	klog.Background().Info("Scaled", "deployment", klog.KRef("default", "web"), "to", 0)
	klog.Background().V(2).Info("Shown")
	klog.Background().V(4).Info("Not shown")
	klog.Flush()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 || first["msg"] != "Scaled" || first["to"] != 0.0 {
		t.Errorf("got %q, error %v", lines, err)
	}
}
