package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingBuiltInGit: what is built stays out of git. The largest file that belongs
// there is the licences of the dependencies.
func TestNothingBuiltInGit(t *testing.T) {
	const limit = 256 << 10 // bytes
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal("git ls-files: ", err)
	}
	paths := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(paths) < 100 {
		t.Fatalf("only %d files", len(paths))
	}
	for _, path := range paths {
		info, err := os.Lstat(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if path == "internal/night/zoneinfo.zip" {
			continue // data, the time zones of the world, which the program carries
		}
		if info.Size() > limit {
			t.Errorf("%s has %d bytes, more than any source should", path, info.Size())
		}
	}
}
