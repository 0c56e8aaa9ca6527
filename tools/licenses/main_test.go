package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

func TestClassify(t *testing.T) {
	known, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	license := func(file string) string {
		text, err := assets.ReadLicenseFile("License/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return clean(string(text))
	}
	for name, test := range map[string]struct {
		texts         map[string]string
		licenses, err string
	}{
		"one that goes":        {texts: map[string]string{"LICENSE": license("MIT/pristine.txt")}, licenses: "MIT"},
		"two that go":          {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "third_party/x/COPYING": license("ISC/license.txt")}, licenses: "ISC, MIT"},
		"one that does not go": {texts: map[string]string{"LICENSE": license("AGPL-3.0/license.txt")}, err: "AGPL-3.0 is not among"},
		"a good and a bad one": {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "x/LICENSE": license("GPL-2.0/license.txt")}, err: "GPL-2.0"},
		"one of their own":     {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "x/LICENSE.txt": "You may look at this on Sundays."}, err: "no known licence in x/LICENSE.txt"},
		"none":                 {texts: map[string]string{"NOTICE": "By Somebody."}, err: "no licence"},
	} {
		m := &module{path: "example.com/m", texts: test.texts}
		err := m.classify(known)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want one with %q", name, err, test.err)
			}
			continue
		}
		if got := strings.Join(m.licenses, ", "); err != nil || got != test.licenses {
			t.Errorf("%s: %q, error %v, want %q", name, got, err, test.licenses)
		}
	}
}

// TestPlatforms: the licences are those of every platform that is released. The list is
// the Makefile's, which hands it over.
func TestPlatforms(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^PLATFORMS +\?= (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no PLATFORMS")
	}
	platforms := strings.Fields(string(line[1]))
	for target, command := range map[string]string{
		"licenses": "licenses THIRD_PARTY_LICENSES ",
		"verify":   "licenses -check THIRD_PARTY_LICENSES ",
	} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "-C", root, target)
		for _, v := range os.Environ() { // nothing from the make that runs this test
			key, _, _ := strings.Cut(v, "=")
			if !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "PLATFORMS"}, key) {
				cmd.Env = append(cmd.Env, v)
			}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make -n %s: %v\n%s", target, err, out)
		}
		if want := command + strings.Join(platforms, " ") + "\n"; !strings.Contains(string(out), want) {
			t.Errorf("make %s does not run %q, but\n%s", target, want, out)
		}
	}

	if _, err := linked([]string{"linux/amd64"}); err == nil || !strings.Contains(err.Error(), `platform "linux/amd64": want one such as linux-amd64`) {
		t.Errorf("error %v", err)
	}
}
