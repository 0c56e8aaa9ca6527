package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Stamped by the linker: -X schedule-night/internal/cli.buildVersion=v1.2.3. The date is the commit's, RFC 3339.
var buildVersion, buildCommit, buildDate string

// Version is what --version prints after the name.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok { // not built by the go command
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describeBuild(info, buildVersion, buildCommit, buildDate)
}

// ModuleVersion is the version alone.
func ModuleVersion() string {
	version, _, _ := strings.Cut(Version(), " ")
	return version
}

// describeBuild tells what is known: the stamps, else what the go command found out
// about the checkout. go install of a version knows no commit; go run knows nothing.
func describeBuild(info *debug.BuildInfo, version, commit, date string) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	var parts []string
	if commit = cmp.Or(commit, settings["vcs.revision"]); commit != "" {
		parts = append(parts, "commit "+commit)
	}
	if date = cmp.Or(date, settings["vcs.time"]); date != "" {
		parts = append(parts, date)
	}
	parts = append(parts, fmt.Sprintf("%s %s/%s", info.GoVersion, runtime.GOOS, runtime.GOARCH))
	for _, dep := range info.Deps {
		if dep.Path == "k8s.io/client-go" {
			parts = append(parts, "client-go "+dep.Version)
		}
	}
	return fmt.Sprintf("%s (%s)", cmp.Or(version, info.Main.Version, "(devel)"), strings.Join(parts, ", "))
}
