// Package docs checks what is written about the program against the program: links,
// paths, and the names of rooms, flags, metrics, states, annotations and reasons.
package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// root is the folder of the repository.
const root = "../.."

// documents are all Markdown files, by their paths in the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || path == "dist" || path == ".git" || path == ".cluster"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			texts[path] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 10 {
		t.Fatalf("only %d documents", len(texts))
	}
	return texts
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// prose is a document without its blocks of code.
func prose(text string) string {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code    = regexp.MustCompile("`[^`\n]+`")
)

// anchors are the names that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(prose(text), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(h[1], "$1")
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		names[name] = true
	}
	return names
}

func TestLinks(t *testing.T) {
	texts := documents(t)
	found := 0
	for path, text := range texts {
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(text), ""), -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(l[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", path, l[1])
			} else if anchor != "" && !anchors(texts[target])[anchor] {
				t.Errorf("%s: %s has no heading for the link %s", path, target, l[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d links found", found)
	}
}

// help is the help of the program and of each of its commands.
func help(t *testing.T) string {
	t.Helper()
	program := os.Getenv("SCHEDULE_NIGHT")
	if program == "" {
		t.Fatal("SCHEDULE_NIGHT must name the built program; make test-docs builds it and does so")
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, args...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd.Args, err)
		}
		return string(out)
	}
	text := run("--help")
	for line := range strings.Lines(run("__complete", "")) {
		if name := strings.Fields(line)[0]; name != "help" && !strings.HasPrefix(name, ":") {
			text += run(name, "--help")
		}
	}
	return text
}

var flagName = regexp.MustCompile(`--[a-z][a-z0-9-]+`)

// foreign are flags of other programs, which stand alone in code.
var foreign = []string{"--create-namespace", "--force", "--force-conflicts", "--include-resources", "--server-side", "--set", "--set-string", "--values"}

func TestFlags(t *testing.T) {
	flags := map[string]bool{"--version": true}
	for line := range strings.Lines(help(t)) {
		if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], "-") {
			if name := flagName.FindString(line); name != "" {
				flags[name] = true
			}
		}
	}
	command := regexp.MustCompile(`(?m)(?:^|[|;&] *|[$] )(?:schedule-night|go run \.) [^|;&\n]*`)
	mentioned := map[string]bool{}
	for path, text := range documents(t) {
		for _, c := range code.FindAllString(prose(text), -1) {
			if name := flagName.FindString(c); name != "" && strings.HasPrefix(c, "`--") && !slices.Contains(foreign, name) {
				mentioned[name] = true
				if !flags[name] {
					t.Errorf("%s: the program has no flag %s", path, name)
				}
			}
		}
		lines := strings.ReplaceAll(text, "\n    ", "\n")
		for _, c := range command.FindAllString(lines, -1) {
			for _, name := range flagName.FindAllString(c, -1) {
				mentioned[name] = true
				if !flags[name] {
					t.Errorf("%s: %q: the program has no flag %s", path, strings.TrimSpace(c), name)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !mentioned[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}

// sources are the files that the program is built from, by their paths in the repository:
// no tests, and no helpers of tests.
var sources = sync.OnceValues(func() ([]string, error) {
	list := exec.Command("go", "list", "-deps", "-f", `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, ".")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", list.Args, err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, file := range strings.Fields(string(out)) {
		path, err := filepath.Rel(top, file)
		if err != nil {
			return nil, err
		}
		paths = append(paths, filepath.ToSlash(path))
	}
	return paths, nil
})

func sourcePaths(t *testing.T) []string {
	t.Helper()
	paths, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// constants are the strings in the program's source that the pattern's group finds.
func constants(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, path := range sourcePaths(t) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, path), -1) {
			found[m[1]] = true
		}
	}
	return found
}

// TestRooms: the architecture has a line for each package, and for each file at the top.
func TestRooms(t *testing.T) {
	text := read(t, "docs/architecture.md")
	rooms := map[string]bool{}
	for _, path := range sourcePaths(t) {
		if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." {
			path = dir
		}
		rooms[path] = true
	}
	if len(rooms) < 10 {
		t.Errorf("only %d rooms", len(rooms))
	}
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		if !strings.Contains(text, "](../"+room+")") {
			t.Errorf("docs/architecture.md does not name %s", room)
		}
	}
}

// TestPaths: where a document names a file, there is one.
func TestPaths(t *testing.T) {
	path := regexp.MustCompile("`(?:\\./)?((?:deploy|docs|examples|internal|test|tools)/[A-Za-z0-9_./-]+)`")
	found := 0
	for name, text := range documents(t) {
		for _, m := range path.FindAllStringSubmatch(prose(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: there is no %s", name, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d paths found", found)
	}
}

// TestStates: the documents name no state that the program does not have, and the
// reference explains each that it has.
func TestStates(t *testing.T) {
	states := constants(t, `(?m)^\s*[A-Z][a-z]+ +State = "([a-z]+)"`)
	if len(states) < 5 {
		t.Errorf("only %d states in the source", len(states))
	}
	reference := read(t, "docs/reference.md")
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if !regexp.MustCompile("(?m)^\\| `" + state + "` +\\|").MatchString(reference) {
			t.Errorf("docs/reference.md does not explain the state %s", state)
		}
	}
	mention := regexp.MustCompile(`schedule_night_deployments\{state="([a-z]+)"`)
	for path, text := range documents(t) {
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if !states[m[1]] {
				t.Errorf("%s: the program has no state %s", path, m[1])
			}
		}
	}
}

// TestNames: the documents name no metric, annotation or reason that the program does
// not have, and every one that it has.
func TestNames(t *testing.T) {
	for _, kind := range []struct {
		what, source, mention string
		min                   int
	}{
		{"metric", `"((?:schedule_night|controller)_[a-z_]+)"`, `\b((?:schedule_night|controller)_[a-z]+_[a-z_]*[a-z])`, 10},
		{"annotation or condition", `\bPrefix \+ "([A-Za-z-]+)"`, `\b(?:schedule-night\.svc|sn)/([A-Za-z](?:[A-Za-z-]*[A-Za-z])?)`, 10},
		{"reason", `(?m)^\s*[Rr]eason[A-Za-z]+ += "([A-Za-z]+)"`, `(?:[Ee]vents?|reason) \x60?([A-Z][a-z]+[A-Z][a-zA-Z]+)`, 10},
	} {
		has := constants(t, kind.source)
		if len(has) < kind.min {
			t.Errorf("only %d of the kind %s in the source", len(has), kind.what)
		}
		all := ""
		for path, text := range documents(t) {
			all += text
			for _, m := range regexp.MustCompile(kind.mention).FindAllStringSubmatch(text, -1) {
				name := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(m[1], "")
				if !has[name] && !has[m[1]] {
					t.Errorf("%s: the program has no %s %s", path, kind.what, m[1])
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(has)) {
			if !strings.Contains(all, name) {
				t.Errorf("the %s %s is not documented", kind.what, name)
			}
		}
	}
}

// TestRunbook: what to do about each alert is said under a heading with its name.
func TestRunbook(t *testing.T) {
	known := anchors(read(t, "docs/operations.md"))
	alerts := regexp.MustCompile(`alert: ([A-Za-z]+)`).FindAllStringSubmatch(read(t, "deploy/extras/prometheusrule.yaml"), -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, a := range alerts {
		if !known[strings.ToLower(a[1])] {
			t.Errorf("docs/operations.md does not say what to do about the alert %s", a[1])
		}
	}
}

// TestWorkflows: what runs on others' machines with our token is named by its content,
// and gets no more than it needs.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.y*ml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d workflows, error %v", len(files), err)
	}
	uses := regexp.MustCompile(`(?m)^[\s-]*uses: *(.*)$`)
	pinned := regexp.MustCompile(`^(\./\.github/workflows/[a-z]+\.yml|[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %q is not pinned as owner/name@commit # v1.2.3", file, m[1])
			}
		}
		var workflow struct{ Permissions map[string]string }
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !maps.Equal(workflow.Permissions, map[string]string{"contents": "read"}) {
			t.Errorf("%s: permissions of all jobs are %v, want contents: read; more is for the job that needs it", file, workflow.Permissions)
		}
	}
}

// TestDependabot: every module of the repository is kept up to date.
func TestDependabot(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	var covered, modules []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			covered = append(covered, u.Directories...)
		}
	}
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		files, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			modules = append(modules, strings.TrimSuffix("/"+strings.TrimSuffix(filepath.Dir(file), "."), "/."))
		}
	}
	slices.Sort(covered)
	slices.Sort(modules)
	if !slices.Equal(covered, modules) {
		t.Errorf("dependabot.yml covers %v, there are %v", covered, modules)
	}
}
