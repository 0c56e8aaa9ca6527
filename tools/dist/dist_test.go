package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

const (
	version   = "v1.2.3"
	imageName = "registry.example.com/schedule-night"
	date      = "2026-11-29T21:00:00Z"
)

// platforms are those of the image, Windows for its zip, and this machine's. The others
// are no different but for minutes of compiling.
var platforms = slices.Compact(slices.Sorted(slices.Values([]string{
	"linux-amd64", "linux-arm64", "windows-amd64", runtime.GOOS + "-" + runtime.GOARCH,
})))

// first and second are two checkouts of one commit in different folders, in each of
// which make release has run.
var first, second checkout

type checkout struct{ dir, commit string }

func (c checkout) dist(name string) string { return filepath.Join(c.dir, "dist", name) }

func (c checkout) image() string { return c.dist("schedule-night_" + version + "_image.tar") }

func TestMain(m *testing.M) {
	os.Exit(func() int {
		for _, c := range []*checkout{&first, &second} {
			dir, err := os.MkdirTemp("", "schedule-night-release-")
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			defer os.RemoveAll(dir)
			if *c, err = newCheckout(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			if out, err := c.make("release", "VERSION="+version, "IMAGE="+imageName, "RELEASE_URL=https://example.com/v1", "PLATFORMS="+strings.Join(platforms, " ")); err != nil {
				fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// newCheckout copies this checkout, with what is not committed yet, and commits it: the
// same files give the same commit.
func newCheckout(dir string) (checkout, error) {
	c := checkout{dir: dir}
	files, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return c, fmt.Errorf("listing the checkout: %w", err)
	}
	for path := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		from := filepath.Join("../..", path)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return c, err
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return c, err
		}
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return c, err
		}
		if err := os.WriteFile(to, content, info.Mode()); err != nil {
			return c, err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "test"}, {"tag", version}, {"rev-parse", "HEAD"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return c, fmt.Errorf("git %q: %w: %s", args, err, out)
		}
		c.commit = strings.TrimSpace(string(out))
	}
	return c, nil
}

// make runs make with nothing from the make that runs the tests.
func (c checkout) make(args ...string) (string, error) {
	cmd := exec.Command("make", append([]string{"-C", c.dir}, args...)...)
	for _, v := range os.Environ() {
		key, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "VERSION", "COMMIT", "DATE", "SOURCE_DATE_EPOCH", "DIST", "IMAGE", "PLATFORMS"}, key) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestReproducible: the same commit gives the same bytes, wherever it is checked out.
func TestReproducible(t *testing.T) {
	want := []string{"SHA256SUMS", "install.yaml", "schedule-night-1.2.3.tgz", "schedule-night.yaml", "schedule-night_v1.2.3_image.tar", "schedule-night_v1.2.3_sbom.cdx.json"}
	for _, p := range platforms {
		want = append(want, archiveName(p))
	}
	slices.Sort(want)
	var names []string
	entries, err := os.ReadDir(first.dist(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
		if !bytes.Equal(read(t, first.dist(entry.Name())), read(t, second.dist(entry.Name()))) {
			t.Errorf("%s differs between two builds of one commit", entry.Name())
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = first.dist("")
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != len(want)-1 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestImage(t *testing.T) {
	index, err := readImage(first.image(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range manifest.Manifests {
		found = append(found, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, *m.Platform)
		checkImage(t, dockerImageOf(t, m.Platform.Architecture), *m.Platform)
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %q", found)
	}
	var top v1.IndexManifest
	if err := json.Unmarshal(unpack(t, read(t, first.image()))["index.json"], &top); err != nil {
		t.Fatal(err)
	}
	if got := top.Manifests[0].Annotations["io.containerd.image.name"]; got != imageName+":"+version {
		t.Errorf("imported as %q", got)
	}
}

// dockerImageOf is the image that Docker's older store finds, by manifest.json alone.
func dockerImageOf(t *testing.T, arch string) v1.Image {
	t.Helper()
	tag, err := name.NewTag(imageName + ":" + version + "-" + arch)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(first.image(), &tag)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// checkImage: nothing but the program, which needs nothing else, as nobody.
func checkImage(t *testing.T, image v1.Image, platform v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.OS != platform.OS || config.Architecture != platform.Architecture {
		t.Errorf("config of %s/%s in the manifest of %s", config.OS, config.Architecture, platform)
	}
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/schedule-night"}) || len(c.Cmd) != 0 {
		t.Errorf("user %q, entry point %q, command %q", c.User, c.Entrypoint, c.Cmd)
	}
	if _, ok := c.ExposedPorts["8080/tcp"]; !ok || len(c.ExposedPorts) != 1 {
		t.Errorf("ports %v", c.ExposedPorts)
	}
	for label, want := range map[string]string{"title": "schedule-night", "licenses": "Apache-2.0", "version": version, "revision": first.commit, "created": date} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	files := imageFiles(t, image)
	if len(files) != 1 || files["schedule-night"] == nil {
		t.Fatalf("%d files", len(files))
	}
	program, err := elf.NewFile(bytes.NewReader(files["schedule-night"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s: the program is not static: %v", platform, p.Type)
		}
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[platform.Architecture]; program.Machine != want {
		t.Errorf("%s: the program is for %v", platform, program.Machine)
	}
}

// imageFiles are the files of an image by path.
func imageFiles(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, error %v", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	content, err := io.ReadAll(layer)
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, content)
}

// TestRun runs the program for this machine, which is the image's as well.
func TestRun(t *testing.T) {
	content := unpackGzip(t, read(t, first.dist(archiveName(runtime.GOOS+"-"+runtime.GOARCH))))["schedule-night"]
	if runtime.GOOS == "linux" && !bytes.Equal(content, imageFiles(t, dockerImageOf(t, runtime.GOARCH))["schedule-night"]) {
		t.Error("the image has another program than the archive")
	}
	program := filepath.Join(t.TempDir(), "schedule-night")
	if err := os.WriteFile(program, content, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{} // as in the image
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got, want := run("--version"), fmt.Sprintf("schedule-night version %s (commit %s, %s, %s %s/%s, client-go v", version, first.commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	manifest := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(manifest, []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, annotations: {
schedule-night.svc/on: "true", schedule-night.svc/expected: "3", schedule-night.svc/timezone: Asia/Kolkata}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// The zone is in the program: the image has none.
	if got := run("plan", "-f", manifest, "--from", "2026-11-27T18:00:00+01:00"); !strings.Contains(got, "Sat 07:00 Asia/Kolkata") {
		t.Errorf("got %s", got)
	}
}

// TestDockerfile: docker build gives the same program in the same image. What the
// Dockerfile says is done here, without Docker.
func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(string(read(t, filepath.Join(first.dir, "Dockerfile"))), "\\\n", " ")
	arguments := map[string]string{"TARGETOS": "linux", "TARGETARCH": "arm64", "VERSION": version, "COMMIT": first.commit, "DATE": date}
	src := t.TempDir()
	context := dockerContext(t)
	stages := strings.Split(text, "\nFROM ")
	if len(stages) != 3 || !strings.HasPrefix(stages[2], "scratch\n") {
		t.Fatalf("want a stage that builds, then one from scratch")
	}
	built := filepath.Join(src, "schedule-night")
	for line := range strings.Lines(stages[1]) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "COPY":
			fields := strings.Fields(rest)
			if fields[len(fields)-1] != "./" {
				t.Fatalf("want all files where they are in the checkout: %s", line)
			}
			for _, source := range fields[:len(fields)-1] {
				copied := 0
				for _, f := range context {
					if source != "." && source != f.name {
						continue
					}
					copied++
					if err := writeFile(filepath.Join(src, f.name), f.content); err != nil {
						t.Fatal(err)
					}
				}
				if copied == 0 {
					t.Fatalf("nothing to COPY: %s", source)
				}
			}
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(rest, "-o /schedule-night", "-o "+built, 1))
			cmd.Dir = src
			cmd.Env = os.Environ()
			for key, value := range arguments {
				cmd.Env = append(cmd.Env, key+"="+value)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", rest, err, out)
			}
		}
	}

	image := dockerImageOf(t, "arm64")
	if !bytes.Equal(read(t, built), imageFiles(t, image)["schedule-night"]) {
		t.Error("the Dockerfile builds another program than make image")
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, m := range regexp.MustCompile(`(org\.opencontainers\.[a-z.]+)="([^"]*)"`).FindAllStringSubmatch(stages[2], -1) {
		labels[m[1]] = os.Expand(m[2], func(key string) string { return arguments[key] })
	}
	if got, want := fmt.Sprint(labels), fmt.Sprint(config.Config.Labels); got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
	for _, want := range []string{"\nUSER " + config.Config.User + "\n", "\nEXPOSE 8080\n", "\nENTRYPOINT [\"" + config.Config.Entrypoint[0] + "\"]\n"} {
		if !strings.Contains(stages[2], want) {
			t.Errorf("no %q", want)
		}
	}
}

// dockerContext are the files that .dockerignore lets through to docker build.
func dockerContext(t *testing.T) []file {
	t.Helper()
	var patterns []string
	for line := range strings.Lines(string(read(t, filepath.Join(first.dir, ".dockerignore")))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	// This is all of its language that is understood here.
	if patterns[0] != "*" {
		t.Fatal("want a .dockerignore that first leaves out all")
	}
	var through []string
	for _, pattern := range patterns[1:] {
		name, ok := strings.CutPrefix(pattern, "!")
		if !ok || strings.Contains(name, "/") {
			t.Fatalf("want a .dockerignore that then lets through what is at the top: %s", pattern)
		}
		through = append(through, name)
	}
	entries, err := os.ReadDir(first.dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []file
	for _, entry := range entries {
		path := filepath.Join(first.dir, entry.Name())
		switch {
		case !slices.ContainsFunc(through, func(pattern string) bool {
			ok, err := filepath.Match(pattern, entry.Name())
			return err == nil && ok
		}):
		case entry.IsDir():
			below, err := readFolder(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range below {
				files = append(files, file{entry.Name() + "/" + f.name, f.mode, f.content})
			}
		default:
			files = append(files, file{entry.Name(), 0o644, read(t, path)})
		}
	}
	return files
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/schedule-night"
	for range 2 { // the second time all is there already
		if out, err := first.make("push", "IMAGE="+repository, "VERSION="+version); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		platform := v1.Platform{OS: "linux", Architecture: arch}
		image, err := remote.Image(tag, remote.WithPlatform(platform), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, platform)
	}
	if out, err := first.make("push", "VERSION="+version); err == nil || !strings.Contains(out, `"schedule-night:v1.2.3": strict validation requires the registry`) {
		t.Errorf("without a registry: %v\n%s", err, out)
	}
}

// archiveName is the file in which a platform's program is released.
func archiveName(platform string) string {
	name := "schedule-night_v1.2.3_" + strings.Replace(platform, "-", "_", 1)
	if strings.HasPrefix(platform, "windows-") {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

func TestArchives(t *testing.T) {
	for _, platform := range platforms {
		var files map[string][]byte
		program := "schedule-night"
		if strings.HasPrefix(platform, "windows-") {
			program += ".exe"
			files = unzip(t, first.dist(archiveName(platform)))
		} else {
			files = unpackGzip(t, read(t, first.dist(archiveName(platform))))
		}
		path := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(path, files[program], 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := readBinary(path)
		if err != nil || b.os+"-"+b.arch != platform {
			t.Errorf("%s has a program for %s-%s, error %v", platform, b.os, b.arch, err)
		}
		for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
			if text, err := os.ReadFile(filepath.Join(first.dir, name)); err != nil || !bytes.Equal(files[name], text) {
				t.Errorf("%s: no %s, error %v", platform, name, err)
			}
		}
	}
}

// TestInstall: install.yaml has all objects of deploy/, and the image of this version.
func TestInstall(t *testing.T) {
	var want, got []string
	paths, err := filepath.Glob(filepath.Join(first.dir, "deploy", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		want = append(want, objects(t, read(t, path))...)
	}
	install := read(t, first.dist("install.yaml"))
	got = objects(t, install)
	if !slices.Equal(got, want) || len(want) < 5 {
		t.Errorf("got %q, want %q", got, want)
	}
	images := regexp.MustCompile(`(?m)^ *image: (.*)$`).FindAllStringSubmatch(string(install), -1)
	if len(images) != 1 || images[0][1] != imageName+":"+version {
		t.Errorf("images %q", images)
	}
}

// TestChart: the chart names the image of this version, and is else what is in deploy/.
func TestChart(t *testing.T) {
	chart := unpackGzip(t, read(t, first.dist("schedule-night-1.2.3.tgz")))
	source := filepath.Join(first.dir, "deploy", "chart")
	values := strings.Replace(string(read(t, filepath.Join(source, "values.yaml"))), "\n  repository: schedule-night\n", "\n  repository: "+imageName+"\n", 1)
	if got := string(chart["schedule-night/values.yaml"]); got != values || !strings.Contains(got, imageName) {
		t.Errorf("the values are %s", got)
	}
	if about := string(chart["schedule-night/Chart.yaml"]); !strings.Contains(about, "\nversion: 1.2.3\n") || !strings.Contains(about, "appVersion: v1.2.3\n") {
		t.Errorf("got %s", about)
	}
	files, err := readFolder(source)
	if err != nil {
		t.Fatal(err)
	}
	if len(chart) != len(files) {
		t.Errorf("%d files, want %d", len(chart), len(files))
	}
	for _, f := range files {
		content := chart["schedule-night/"+f.name]
		if f.name != "values.yaml" && f.name != "Chart.yaml" && !bytes.Equal(content, f.content) {
			t.Errorf("%s is %s", f.name, content)
		}
	}
}

func TestSetRepository(t *testing.T) {
	const values = "# About it.\nimage: # ours\n  repository: schedule-night\n  tag: \"\" # the chart's\nreplicas: 2\n"
	for _, image := range []string{"schedule-night", "registry.example.com:5000/a|b&c/schedule-night", "localhost:5000/$1"} {
		got, err := setRepository([]byte(values), image)
		if want := strings.Replace(values, ": schedule-night\n", ": "+image+"\n", 1); err != nil || string(got) != want {
			t.Errorf("%s: got %s, error %v", image, got, err)
		}
	}
	for name, test := range map[string]struct{ values, image, err string }{
		"a comment":     {values, "night # owl", "does not become image.repository, or not alone"},
		"two lines":     {values, "night\n  tag: v1", "does not become image.repository, or not alone"},
		"none":          {values, "", "does not become image.repository, or not alone"},
		"no YAML":       {values, "{", "decoding the values with the image"},
		"another place": {"other:\n  repository: schedule-night\nimage: {repository: night}\n", "owl", "does not become image.repository, or not alone"},
		"two places":    {values + "other:\n  repository: schedule-night\n", "owl", "does not become image.repository, or not alone"},
		"no place":      {"image:\n  repository: night\n", "owl", "does not become image.repository, or not alone"},
		"no image":      {"replicas: 2\n", "owl", "no image in the values"},
	} {
		if got, err := setRepository([]byte(test.values), test.image); err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %s, error %v", name, got, err)
		}
	}
}

// objects are the kinds and names in a manifest, in order.
func objects(t *testing.T, manifest []byte) []string {
	t.Helper()
	var list []string
	for document := range strings.SplitSeq("\n"+string(manifest), "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "" {
			list = append(list, object.Kind+"/"+object.Metadata.Name)
		}
	}
	return list
}

func TestKrewManifest(t *testing.T) {
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels struct{ OS, Arch string } }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(read(t, first.dist("schedule-night.yaml")), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "schedule-night" || manifest.Spec.Version != version || len(manifest.Spec.Platforms) != len(platforms) {
		t.Errorf("got %+v", manifest)
	}
	sums := string(read(t, first.dist("SHA256SUMS")))
	for _, p := range manifest.Spec.Platforms {
		name, ok := strings.CutPrefix(p.URI, "https://example.com/v1/")
		if !ok || !strings.Contains(name, p.Selector.MatchLabels.OS+"_"+p.Selector.MatchLabels.Arch) || !strings.Contains(sums, p.SHA256+"  "+name+"\n") {
			t.Errorf("got %+v", p)
		}
		if exe := strings.HasSuffix(p.Bin, ".exe"); exe != (p.Selector.MatchLabels.OS == "windows") {
			t.Errorf("got %+v", p)
		}
	}
}

func TestSBOM(t *testing.T) {
	var bom struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, first.dist("schedule-night_v1.2.3_sbom.cdx.json")), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Name != "schedule-night" || bom.Metadata.Component.Version != version {
		t.Errorf("got %s of %+v", bom.BOMFormat, bom.Metadata)
	}
	for _, want := range []string{"k8s.io/client-go", "github.com/spf13/cobra", "std"} {
		if !slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool { return c.Name == want && c.Version != "" }) {
			t.Errorf("no %s", want)
		}
	}
}

// TestRefusals: a release is of a version, of a commit, and of the tag's commit; anything
// else that is built says that it is something else.
func TestRefusals(t *testing.T) {
	c, err := newCheckout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(version, want string) {
		t.Helper()
		if out, err := c.make("release", "VERSION="+version); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q in %s", version, err, want, out)
		}
	}
	for _, bad := range []string{"1.2.3", "v1.2", "v1.2.3-01", "v1.2.3+build", "latest", "v01.2.3"} {
		refused(bad, fmt.Sprintf(`error: version %q: want a tag such as v1.2.3`, bad))
	}
	stamped := func(want string) {
		t.Helper()
		if out, err := c.make("-n", "build"); err != nil || !strings.Contains(out, "-X schedule-night/internal/cli.buildVersion="+want+" -X schedule-night/internal/cli.buildCommit="+c.commit+" -X schedule-night/internal/cli.buildDate="+date+`"`) {
			t.Errorf("%v, want %s in %s", err, want, out)
		}
	}
	stamped(version)
	if err := os.WriteFile(filepath.Join(c.dir, "new.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stamped(version + "-dirty")
	refused("v1.2.4", "changes that are not committed")
	for _, args := range [][]string{{"add", "-A"}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "new"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", c.dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	refused(version, "v1.2.3 is the tag of another commit, "+c.commit)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func unpackGzip(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if content, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return unpack(t, content)
}

// unpack returns the files of a tar; all are root's, and of the commit's date.
func unpack(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := header.ModTime.UTC().Format("2006-01-02T15:04:05Z"); got != date || header.Uid != 0 || header.Gid != 0 || !header.FileInfo().Mode().IsRegular() {
			t.Errorf("%s: of %s, user %d, %v", header.Name, got, header.Uid, header.FileInfo().Mode())
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := map[string][]byte{}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(content); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
