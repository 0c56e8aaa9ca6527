package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"text/template"

	"sigs.k8s.io/yaml"
)

// platform is an archive as the krew manifest's template sees it.
type platform struct{ OS, Arch, URL, SHA256, Bin string }

// writeRelease writes an archive for each binary, the manifests in one file, and the
// manifest for krew.
func writeRelease(o options, binaries []binary) error {
	if err := checkVersion(o.version); err != nil {
		return err
	}
	var others []file
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
		text, err := os.ReadFile(filepath.Join(o.source, name))
		if err != nil {
			return fmt.Errorf("reading a licence: %w", err)
		}
		others = append(others, file{name, 0o644, text})
	}
	var platforms []platform
	for _, b := range binaries {
		p, err := writeArchive(o, b, others...)
		if err != nil {
			return err
		}
		platforms = append(platforms, p)
	}
	if err := writeInstall(o); err != nil {
		return err
	}
	return writeKrew(o, platforms)
}

// writeArchive packs a binary: a zip for Windows, else a tar.gz.
func writeArchive(o options, b binary, others ...file) (platform, error) {
	p := platform{OS: b.os, Arch: b.arch, Bin: "schedule-night"}
	suffix, pack := ".tar.gz", tarGzFiles
	if b.os == "windows" {
		suffix, pack = ".zip", zipFiles
		p.Bin += ".exe"
	}
	name := fmt.Sprintf("schedule-night_%s_%s_%s%s", o.version, b.os, b.arch, suffix)
	archive, err := pack(o.date, append([]file{{p.Bin, 0o755, b.content}}, others...)...)
	if err != nil {
		return p, fmt.Errorf("making %s: %w", name, err)
	}
	p.URL = o.url + "/" + name
	p.SHA256 = fmt.Sprintf("%x", sha256.Sum256(archive))
	return p, writeFile(filepath.Join(o.output, name), archive)
}

// imageLine is where deploy/ names the image.
var imageLine = regexp.MustCompile(`(?m)^([ -]*image: )schedule-night:latest$`)

// writeInstall joins what `kubectl apply -f deploy/` applies, in the same order, with
// the image of this version.
func writeInstall(o options) error {
	paths, err := filepath.Glob(filepath.Join(o.source, "deploy", "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the manifests: %w", err)
	}
	slices.Sort(paths)
	all := []byte("# schedule-night " + o.version + "\n")
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the manifests: %w", err)
		}
		all = append(all, "---\n"...)
		all = append(all, bytes.TrimRight(bytes.TrimPrefix(content, []byte("---\n")), "\n")...)
		all = append(all, '\n')
	}
	if n := len(imageLine.FindAllIndex(all, -1)); n != 1 {
		return fmt.Errorf("the manifests name the image schedule-night:latest %d times, not once", n)
	}
	all = imageLine.ReplaceAll(all, []byte("${1}"+o.image+":"+o.version))
	return writeFile(filepath.Join(o.output, "install.yaml"), all)
}

// repositoryLine is where the chart's values name the image.
var repositoryLine = regexp.MustCompile(`(?m)^  repository: schedule-night$`)

// writeChart copies deploy/chart to a new folder, where the values name the image that is
// released. `helm package` sets versions, and it can set nothing else.
func writeChart(source, image, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(source, "deploy", "chart"))); err != nil {
		return fmt.Errorf("copying the chart: %w", err)
	}
	path := filepath.Join(dir, "values.yaml")
	values, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the chart's values: %w", err)
	}
	if values, err = setRepository(values, image); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeFile(path, values)
}

// setRepository changes one line of the values: an encoder would lose the comments, which
// are what people read. That nothing else became different is checked by a decoder.
func setRepository(values []byte, image string) ([]byte, error) {
	changed := repositoryLine.ReplaceAllLiteral(values, []byte("  repository: "+image))
	var want, got map[string]any
	if err := yaml.Unmarshal(values, &want); err != nil {
		return nil, fmt.Errorf("decoding the values: %w", err)
	}
	section, ok := want["image"].(map[string]any)
	if !ok {
		return nil, errors.New("no image in the values")
	}
	section["repository"] = image
	if err := yaml.Unmarshal(changed, &got); err != nil {
		return nil, fmt.Errorf("decoding the values with the image %q: %w", image, err)
	}
	if !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("the image %q does not become image.repository, or not alone", image)
	}
	return changed, nil
}

// writeKrew fills in the template of the krew manifest.
func writeKrew(o options, platforms []platform) error {
	manifest, err := template.ParseFiles(filepath.Join(o.source, "packaging", "krew", "schedule-night.yaml"))
	if err != nil {
		return fmt.Errorf("reading the krew manifest: %w", err)
	}
	var out bytes.Buffer
	err = manifest.Execute(&out, struct {
		Version   string
		Platforms []platform
	}{o.version, platforms})
	if err != nil {
		return fmt.Errorf("filling in the krew manifest: %w", err)
	}
	return writeFile(filepath.Join(o.output, "schedule-night.yaml"), out.Bytes())
}

// writeSums writes SHA256SUMS, as sha256sum -c reads it.
func writeSums(dir string) error {
	const name = "SHA256SUMS"
	files, err := readFolder(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		if f.name != name {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
		}
	}
	return writeFile(filepath.Join(dir, name), sums.Bytes())
}
