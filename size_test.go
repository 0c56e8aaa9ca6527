package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramStaysSmall: an import that calls methods by name, as html/template does, has
// the linker keep every method of every API type, 27 MB; and all its memory is the
// program's pages first.
func TestProgramStaysSmall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "schedule-night")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 36 << 20
	if info.Size() > limit {
		t.Errorf("%d bytes, want %d at most", info.Size(), limit)
	}
	deps := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	out, err := deps.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if name == "html/template" || name == "k8s.io/cli-runtime" {
			t.Errorf("%s is imported", name)
		}
	}
}
