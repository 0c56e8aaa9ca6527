package night_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"schedule-night/internal/night"
)

// goroot is the folder of the toolchain that runs the test.
func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("asking for GOROOT: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestZonesOfMachine: a schedule means the same on every machine, whatever zones it has.
// Package time looks at them at its first zone and never again, hence the process.
func TestZonesOfMachine(t *testing.T) {
	const (
		child = "NIGHT_ZONES_CHILD"
		alien = "right/Europe/Berlin" // counts leap seconds: half a minute off
	)
	if os.Getenv(child) != "" {
		if loc, err := night.ParseLocation(alien); err == nil {
			t.Errorf("%s is %v", alien, loc)
		}
		loc, err := night.ParseLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		if got := night.Instant(night.Date(20000), 12*60, loc).UTC().Format("15:04"); got != "10:00" {
			t.Errorf("noon in Berlin is at %s UTC in October, want 10:00", got)
		}
		return
	}
	// A machine on which both names are Tokyo.
	archive, err := zip.OpenReader("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	tokyo, err := fs.ReadFile(archive, "Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{alien, "Europe/Berlin"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, tokyo, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestZonesOfMachine$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1", "ZONEINFO="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("with zones of its own: %v\n%s", err, out)
	}
}

// zonesOf is the toolchain that the copy was taken from; go generate makes another one.
const zonesOf = "go1.26.8"

// TestZonesCurrent: the copy is that of the toolchain, where it is the one that it was taken
// from. Another may have another release of the database, which is no fault.
func TestZonesCurrent(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(goroot(t), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Logf("zoneinfo.zip is that of %s, not of %s", zonesOf, runtime.Version())
		if runtime.Version() == zonesOf {
			t.Error("run go generate ./internal/night")
		}
	}
}
