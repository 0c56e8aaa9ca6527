// Command dist makes what a release consists of out of built binaries: the image,
// archives, install.yaml, a krew manifest and checksums. The same input gives the
// same bytes: every time in them is the one of -date.
//
//	dist check VERSION                  is it the version of a release?
//	dist chart IMAGE DIR                deploy/chart with this image, for helm package
//	dist image -o FILE BINARY...        the multi-platform image, as an archive
//	dist push FILE NAME:TAG             push that archive to a registry
//	dist release -o DIR BINARY...       archives, install.yaml, krew manifest
//	dist sums DIR                       SHA256SUMS of all files in it
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/mod/semver"
)

const usage = "usage: dist check VERSION | chart IMAGE DIR | image [flags] BINARY... | push FILE NAME:TAG | release [flags] BINARY... | sums DIR"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	command, args := args[0], args[1:]
	switch {
	case command == "check" && len(args) == 1:
		return checkVersion(args[0])
	case command == "chart" && len(args) == 2:
		return writeChart(".", args[0], args[1])
	case command == "push" && len(args) == 2:
		return push(args[0], args[1])
	case command == "sums" && len(args) == 1:
		return writeSums(args[0])
	case command == "image", command == "release":
		o, binaries, err := parse(command, args)
		if err != nil {
			return err
		}
		if command == "image" {
			return writeImage(o, binaries)
		}
		return writeRelease(o, binaries)
	}
	return errors.New(usage)
}

// options are what is known of the release.
type options struct {
	output  string
	version string
	commit  string
	date    time.Time // of the commit
	image   string    // name of the image, without a tag
	source  string    // the root of the repository
	url     string    // where the archives will be found
}

func parse(command string, args []string) (options, []binary, error) {
	var o options
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.StringVar(&o.output, "o", "", "the file or folder to write")
	flags.StringVar(&o.version, "version", "", "version of the program")
	flags.StringVar(&o.commit, "commit", "", "commit that it was built from")
	date := flags.String("date", "", "the commit's date, RFC 3339")
	flags.StringVar(&o.image, "image", "schedule-night", "name of the image, without a tag")
	flags.StringVar(&o.source, "source", ".", "the root of the repository")
	flags.StringVar(&o.url, "url", "https://example.com", "address under which the archives will be found, for krew")
	if err := flags.Parse(args); err != nil {
		return o, nil, fmt.Errorf("flags of %s: %w", command, err)
	}
	if o.output == "" || o.version == "" || o.commit == "" || flags.NArg() == 0 {
		return o, nil, errors.New("-o, -version, -commit and the name of a binary are required")
	}
	var err error
	if o.date, err = time.Parse(time.RFC3339, *date); err != nil {
		return o, nil, fmt.Errorf("-date: %w", err)
	}
	o.date = o.date.UTC()
	var binaries []binary
	for _, path := range flags.Args() {
		b, err := readBinary(path)
		if err != nil {
			return o, nil, err
		}
		binaries = append(binaries, b)
	}
	return o, binaries, nil
}

// binary is a program built by Go, and the platform that it says it is for.
type binary struct {
	content  []byte
	os, arch string
}

// readBinary refuses what would need more than itself to run.
func readBinary(path string) (binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("reading how %s was built: %w", path, err)
	}
	setting := func(key string) string {
		i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
		if i < 0 {
			return ""
		}
		return info.Settings[i].Value
	}
	if setting("CGO_ENABLED") != "0" || setting("-trimpath") != "true" {
		return binary{}, fmt.Errorf("%s was not built with CGO_ENABLED=0 and -trimpath", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("reading the binary: %w", err)
	}
	return binary{content: content, os: setting("GOOS"), arch: setting("GOARCH")}, nil
}

// checkVersion wants a semantic version as Go and git have it: v1.2.3, v1.2.3-rc.1.
// Build metadata is refused as well: a tag of an image cannot have a plus sign.
func checkVersion(version string) error {
	if semver.Canonical(version) != version || version == "" {
		return fmt.Errorf("version %q: want a tag such as v1.2.3 or v1.2.3-rc.1", version)
	}
	return nil
}
