package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrebuilt: with envtest's programs nothing is built for a control plane without
// controllers; a wrong folder is told, and does not become a build of ten minutes.
func TestPrebuilt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	t.Setenv("PATH", "") // no go command
	for _, name := range storagePrograms {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	paths, err := Build(t.Context(), &log, storagePrograms...)
	if err != nil || log.Len() > 0 || len(paths) != len(storagePrograms) {
		t.Errorf("paths %v, error %v, log %q", paths, err, log.String())
	}
	for name, path := range paths {
		if path != filepath.Join(dir, name) {
			t.Errorf("%s is taken from %s", name, path)
		}
	}
	if _, err := Build(t.Context(), &log); err == nil || !strings.Contains(err.Error(), "go env") {
		t.Errorf("the controller manager is not missing: %v", err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(dir, "none"))
	if _, err := Build(t.Context(), &log, storagePrograms...); err == nil || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
