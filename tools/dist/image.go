package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// labels are those of the OCI image spec, as in the Dockerfile.
func (o options) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "schedule-night",
		"org.opencontainers.image.description": "Scales annotated Deployments down at night and back up in the morning",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.revision":    o.commit,
		"org.opencontainers.image.created":     o.date.Format(time.RFC3339),
	}
}

// newImage is the binary and nothing else, configured as in the Dockerfile.
func newImage(o options, b binary) (v1.Image, error) {
	content, err := tarFiles(o.date, file{"schedule-night", 0o755, b.content})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: o.date}, CreatedBy: "COPY /schedule-night /schedule-night"},
	})
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = b.os, b.arch
	config.Created = v1.Time{Time: o.date}
	config.Config = v1.Config{
		User:         "65532:65532",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Entrypoint:   []string{"/schedule-night"},
		Labels:       o.labels(),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("setting the config: %w", err)
	}
	return image, nil
}

// dockerImage is an entry of the manifest.json of docker save.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeImage writes an OCI layout with one index for all platforms. containerd,
// podman, and Docker with containerd's image store read that; Docker's older store
// reads only manifest.json, which knows no platforms: there each has a tag of its own.
func writeImage(o options, binaries []binary) error {
	tag, err := name.NewTag(o.image + ":" + o.version)
	if err != nil {
		return fmt.Errorf("naming the image: %w", err)
	}
	var index v1.ImageIndex = empty.Index
	var docker []dockerImage
	for _, b := range binaries {
		if b.os != "linux" {
			return fmt.Errorf("an image is for linux, not %s", b.os)
		}
		image, err := newImage(o, b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
		entry, err := newDockerImage(image, o.image+":"+o.version+"-"+b.arch)
		if err != nil {
			return err
		}
		docker = append(docker, entry)
	}
	annotated, ok := mutate.Annotations(index, o.labels()).(v1.ImageIndex) // registries show these
	if !ok {
		return errors.New("annotating the index gave something else")
	}

	dir, err := os.MkdirTemp("", "schedule-night-image-")
	if err != nil {
		return fmt.Errorf("making a folder for the layout: %w", err)
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	err = path.AppendIndex(annotated, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          canonicalName(tag),
		"org.opencontainers.image.ref.name": o.version,
	}))
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	manifest, err := json.Marshal(docker)
	if err != nil {
		return fmt.Errorf("encoding manifest.json: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), manifest, 0o600); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	files, err := readFolder(dir)
	if err != nil {
		return err
	}
	archive, err := tarFiles(o.date, files...)
	if err != nil {
		return err
	}
	return writeFile(o.output, archive)
}

func newDockerImage(image v1.Image, tag string) (dockerImage, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return dockerImage{}, fmt.Errorf("reading the manifest: %w", err)
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }
	entry := dockerImage{Config: blob(manifest.Config), RepoTags: []string{tag}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer))
	}
	return entry, nil
}

// canonicalName is the name by which a kubelet looks for the image: with docker.io
// where no registry is named.
func canonicalName(tag name.Tag) string {
	if rest, ok := strings.CutPrefix(tag.Name(), name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return tag.Name()
}

// push uploads the index of an archive that writeImage wrote, with the credentials
// of docker login. The target must name its registry.
func push(archive, target string) error {
	tag, err := name.NewTag(target, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("pushing to %q: %w", target, err)
	}
	dir, err := os.MkdirTemp("", "schedule-night-push-")
	if err != nil {
		return fmt.Errorf("making a folder for the layout: %w", err)
	}
	defer os.RemoveAll(dir)
	index, err := readImage(archive, dir)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing to %s: %w", tag, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest: %w", err)
	}
	fmt.Printf("%s@%s\n", tag, digest)
	return nil
}

// readImage unpacks an archive into a folder, and returns the one index in it.
func readImage(archive, dir string) (v1.ImageIndex, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("opening the image: %w", err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", archive, err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", archive, err)
		}
		if !filepath.IsLocal(header.Name) {
			return nil, fmt.Errorf("%s has a file outside of it: %q", archive, header.Name)
		}
		if err := writeFile(filepath.Join(dir, header.Name), content); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", archive, err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the layout: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the layout: %w", err)
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, not one", archive, len(manifest.Manifests))
	}
	index, err = index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the layout: %w", err)
	}
	return index, nil
}

// readFolder returns the files of a folder in the order of their names.
func readFolder(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return fmt.Errorf("naming %s: %w", path, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a file: %w", err)
		}
		files = append(files, file{filepath.ToSlash(name), 0o644, content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return files, nil
}
