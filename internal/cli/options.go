// Package cli is what the commands share: their flags, the connection to the API server,
// the reading of manifests, and the ways of a kubectl plugin.
package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"schedule-night/internal/night"
)

// UsageError is a mistake in the command line, as opposed to a failure.
type UsageError struct{ error }

// Unwrap is the mistake.
func (e UsageError) Unwrap() error { return e.error }

// UsageErrorf makes a UsageError.
func UsageErrorf(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// FlagError is what is wrong with a flag's value.
func FlagError(name string, value any, format string, args ...any) error {
	return fmt.Errorf("--%s %q: %w", name, fmt.Sprint(value), fmt.Errorf(format, args...))
}

// Options are the flags of one concern.
type Options interface {
	AddFlags(*pflag.FlagSet)
	// Validate checks the values that were given. It changes nothing else.
	Validate() error
}

// Group is options under a heading of the help.
type Group struct {
	Heading string
	Options
}

// Compose gives a command its options, in groups. They are validated before it runs, all
// of them, so that a mistake shows at once and not at nine in the evening.
func Compose(cmd *cobra.Command, groups ...Group) *cobra.Command {
	var flags cliflag.NamedFlagSets
	cmd.Flags().SortFlags = false
	for _, g := range groups {
		g.AddFlags(flags.FlagSet(g.Heading))
		cmd.Flags().AddFlagSet(flags.FlagSet(g.Heading))
	}
	cliflag.SetUsageAndHelpFunc(cmd, flags, 0)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{flagError(err)} })
	cmd.PreRunE = func(*cobra.Command, []string) error {
		var errs []error
		for _, g := range groups {
			errs = append(errs, g.Validate())
		}
		if err := errors.Join(errs...); err != nil {
			return UsageError{err}
		}
		return nil
	}
	return cmd
}

// flagError gives an error of the flag parser the shape of FlagError.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return FlagError(invalid.GetFlag().Name, invalid.GetValue(), "%w", errors.Unwrap(invalid))
	}
	return err
}

// NoArgs refuses arguments. Hint, if there is one, says where such a thing belongs.
func NoArgs(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := cobra.NoArgs(cmd, args)
		if err == nil {
			return nil
		}
		if hint != "" {
			err = fmt.Errorf("%s takes no arguments, got %q; %s", cmd.Name(), args, hint)
		}
		return UsageError{err}
	}
}

// ScheduleOptions are what objects without the annotation get.
type ScheduleOptions struct{ Defaults night.Schedule }

// DefaultSchedule is what objects without annotations get from a controller without flags.
func DefaultSchedule() night.Schedule {
	window, err := night.ParseWindow("21:00-07:00")
	if err != nil {
		panic(err) // a constant
	}
	return night.Schedule{Window: window, Location: time.UTC}
}

// AddFlags implements Options.
func (o *ScheduleOptions) AddFlags(fs *pflag.FlagSet) {
	o.Defaults = DefaultSchedule()
	zone, replicas := zoneValue{&o.Defaults.Location}, replicasValue{&o.Defaults.NightReplicas}
	fs.Var(&o.Defaults.Window, "window", "when Deployments without the annotation sleep")
	fs.Var(zone, "timezone", "IANA time zone of windows without the annotation")
	fs.Var(replicas, "night-replicas", "replicas in the window, for Deployments without the annotation")
	fs.DurationVar(&o.Defaults.WakeStagger, "wake-stagger", 0, "spread wake-ups evenly over this time after the end of a window")
}

// Validate implements Options.
func (o *ScheduleOptions) Validate() error {
	if d := o.Defaults.WakeStagger; d < 0 || d > night.MaxWakeDelay {
		return FlagError("wake-stagger", d, "want 0s to %v", night.MaxWakeDelay)
	}
	return nil
}

// zoneValue is a time zone as the value of a flag.
type zoneValue struct{ location **time.Location }

func (v zoneValue) Set(name string) (err error) {
	loc, err := night.ParseLocation(name)
	if err == nil {
		*v.location = loc
	}
	return err
}

func (v zoneValue) String() string {
	if v.location == nil || *v.location == nil {
		return ""
	}
	return (*v.location).String()
}

func (v zoneValue) Type() string { return "string" }

// replicasValue is a count as the value of a flag.
type replicasValue struct{ replicas *int32 }

func (v replicasValue) Set(text string) (err error) {
	n, err := night.ParseReplicas(text)
	if err == nil {
		*v.replicas = n
	}
	return err
}

func (v replicasValue) String() string {
	if v.replicas == nil {
		return ""
	}
	return strconv.Itoa(int(*v.replicas))
}

func (v replicasValue) Type() string { return "int" }

// LogOptions are the standard ones of Kubernetes' components.
type LogOptions struct {
	config *logsapi.LoggingConfiguration
	flags  *pflag.FlagSet
}

// AddFlags implements Options.
func (o *LogOptions) AddFlags(fs *pflag.FlagSet) {
	o.config = logsapi.NewLoggingConfiguration()
	o.flags = fs
	logsapi.AddFlags(o.config, fs)
	fs.StringVar(&o.config.Format, "log-format", o.config.Format, "the former name of --logging-format")
	hidden := []string{"log-format"}
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Usage, "[Alpha]") { // refused without a feature gate, which there is none to set
			hidden = append(hidden, f.Name)
		}
	})
	for _, name := range hidden {
		utilruntime.Must(fs.MarkHidden(name)) // it was added above
	}
}

// logFlags are the flags by what component-base calls their fields.
var logFlags = map[string]string{"format": "logging-format", "flushFrequency": "log-flush-frequency", "verbosity": "v", "vmodule": "vmodule"}

// Validate implements Options.
func (o *LogOptions) Validate() error {
	var errs []error
	for _, err := range logsapi.Validate(o.config, nil, nil) {
		if flag, ok := logFlags[err.Field]; ok {
			errs = append(errs, FlagError(flag, o.flags.Lookup(flag).Value, "%s", err.Detail))
		} else {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Apply sets up the log, which goes to w. That can be done once. The options must be valid.
func (o *LogOptions) Apply(w io.Writer) error {
	options := &logsapi.LoggingOptions{ErrorStream: w, InfoStream: w}
	if err := logsapi.ValidateAndApplyWithOptions(o.config, options, nil); err != nil {
		return fmt.Errorf("setting up the log: %w", err)
	}
	return nil
}
