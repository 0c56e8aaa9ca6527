// Command licenses writes the licences of all that is linked into a Go program: a
// table of modules, then the texts, as most of them ask of whoever passes the
// program on. It fails if a licence is not known to go with Apache-2.0.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences of which code may be part of a work under Apache-2.0:
// from "category A" of https://www.apache.org/legal/resolved.html.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

var (
	// licenseFile are the names of files that hold a licence.
	licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying)([.-].*)?$`)
	// noticeFile is what Apache-2.0, 4(d), asks to pass on beside the licence.
	noticeFile = regexp.MustCompile(`(?i)^notice([.-].*)?$`)
)

func main() {
	check := flag.Bool("check", false, "fail if FILE is not what would be written, instead of writing it")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: licenses [-check] FILE OS-ARCH..., in the folder of the program")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *check); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(file string, platforms []string, check bool) error {
	modules, err := linked(platforms)
	if err != nil {
		return err
	}
	known, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("reading the classifier's licences: %w", err)
	}
	var errs []error
	for _, m := range modules {
		errs = append(errs, m.classify(known))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	text := report(modules)
	if !check {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("writing the licences: %w", err)
		}
		return nil
	}
	have, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what is there: %w", err)
	}
	if !bytes.Equal(have, text) {
		return fmt.Errorf("%s is not current; `make licenses` writes it anew", file)
	}
	fmt.Printf("licences of %d modules: all of them among %s\n", len(modules), strings.Join(allowed, ", "))
	return nil
}

// module is one whose packages are linked.
type module struct {
	path     string
	texts    map[string]string // path of a licence or notice in the module → what it says
	licenses []string
}

// goPackage is what `go list -json` tells of one.
type goPackage struct {
	Dir, Root string
	Standard  bool
	Module    *struct {
		Path, Dir string
		Main      bool
	}
}

// linked lists the modules of all packages that the program in this folder links on any
// of the platforms, with the licences in the folders of these packages and above. The
// platforms are those of the Makefile, such as linux-amd64: what is linked may differ.
func linked(platforms []string) ([]*module, error) {
	modules := map[string]*module{}
	for _, platform := range platforms {
		goos, goarch, ok := strings.Cut(platform, "-")
		if !ok {
			return nil, fmt.Errorf("platform %q: want one such as linux-amd64", platform)
		}
		cmd := exec.Command("go", "list", "-deps", "-json=Dir,Root,Standard,Module", ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
		for packages := json.NewDecoder(bytes.NewReader(out)); ; {
			var p goPackage
			if err := packages.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, fmt.Errorf("reading what go list says: %w", err)
			}
			if p.Module != nil && p.Module.Main {
				continue
			}
			// Of the standard library's folders, one more has a licence: that of the
			// BoringCrypto objects, which are not linked unless one asks for them.
			name, dir, top := "Go standard library", p.Root, p.Root
			if !p.Standard {
				name, dir, top = p.Module.Path, p.Dir, p.Module.Dir
			}
			m := modules[name]
			if m == nil {
				m = &module{path: name, texts: map[string]string{}}
				modules[name] = m
			}
			if err := m.read(dir, top); err != nil {
				return nil, err
			}
		}
	}
	sorted := slices.Collect(maps.Values(modules))
	slices.SortFunc(sorted, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return sorted, nil
}

// read takes in the licences and notices of dir and the folders above it, up to top.
func (m *module) read(dir, top string) error {
	for ; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("looking for licences: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) && !noticeFile.MatchString(e.Name()) {
				continue
			}
			path := filepath.Join(dir, e.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("reading a licence: %w", err)
			}
			name, err := filepath.Rel(top, path)
			if err != nil {
				return fmt.Errorf("naming a licence: %w", err)
			}
			m.texts[filepath.ToSlash(name)] = clean(string(text))
		}
		if dir == top || len(dir) <= len(top) {
			return nil
		}
	}
}

// clean is a text without what differs between editors.
func clean(text string) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", "    ")) {
		lines = append(lines, strings.TrimRight(line, " \r\n"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// classify finds out which licences the texts are, and refuses what is not allowed.
func (m *module) classify(known *classifier.Classifier) error {
	found := map[string]bool{}
	for name, text := range m.texts {
		if !licenseFile.MatchString(filepath.Base(name)) {
			continue
		}
		recognised := false
		for _, match := range known.Match([]byte(text)).Matches {
			if match.MatchType == "License" || match.MatchType == "Header" {
				found[match.Name], recognised = true, true
			}
		}
		if !recognised {
			return fmt.Errorf("%s: no known licence in %s", m.path, name)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: no licence", m.path)
	}
	m.licenses = slices.Sorted(maps.Keys(found))
	for _, license := range m.licenses {
		if !slices.Contains(allowed, license) {
			return fmt.Errorf("%s: %s is not among %s", m.path, license, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// report is the file. A text that several modules share is in it once.
func report(modules []*module) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "What schedule-night links, and the licences of it. Written by `make licenses`.\n\n")
	owners := map[string][]string{}
	var texts []string
	for _, m := range modules {
		fmt.Fprintf(&b, "%-45s %s\n", m.path, strings.Join(m.licenses, ", "))
		for _, name := range slices.Sorted(maps.Keys(m.texts)) {
			text := m.texts[name]
			if owners[text] == nil {
				texts = append(texts, text)
			}
			owners[text] = append(owners[text], m.path+": "+name)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 79), strings.Join(owners[text], "\n"), text)
	}
	return b.Bytes()
}
