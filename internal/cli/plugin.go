package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// The file names by which kubectl finds a plugin, and what completes its command line;
// it makes an underscore of a dash. Both may be links to this program.
// https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
const (
	pluginFile           = "kubectl-schedule_night"
	pluginCompletionFile = "kubectl_complete-schedule_night"
)

// Invocation tells from the name of the executed file what the user typed, and which
// arguments that means.
func Invocation(argv []string) (name string, args []string) {
	args = argv[1:]
	switch strings.TrimSuffix(filepath.Base(argv[0]), ".exe") {
	case pluginFile:
		return "kubectl schedule-night", args
	case pluginCompletionFile:
		return "kubectl schedule-night", append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return "schedule-night", args
}

// SetName makes the help say what the user types.
func SetName(cmd *cobra.Command, name string) {
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	for _, sub := range cmd.Commands() {
		sub.Long = strings.ReplaceAll(sub.Long, cmd.Name()+" "+sub.Name(), name+" "+sub.Name())
	}
}

// CompleteFlags completes the values that are known beforehand.
func CompleteFlags(cmd *cobra.Command) {
	for _, c := range append(cmd.Commands(), cmd) {
		for flag, values := range map[string][]cobra.Completion{"output": {"json"}, "logging-format": {"text", "json"}} {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				panic(err) // registered twice
			}
		}
	}
}
