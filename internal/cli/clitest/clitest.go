// Package clitest runs commands in tests.
package clitest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"schedule-night/internal/cli"
	"schedule-night/internal/night"
)

// Run runs a command as main does, and tells how the program would exit.
func Run(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err := cmd.ExecuteContext(t.Context())
	switch {
	case errors.As(err, new(cli.UsageError)):
		exit = 2
	case err != nil:
		exit = 1
	}
	if err != nil {
		fmt.Fprintln(&errOut, "error:", err)
	}
	return out.String(), errOut.String(), exit
}

// Manifest is a Deployment in YAML; annotations are name=value without the prefix.
func Manifest(name string, annotations ...string) string {
	var b strings.Builder
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "", namespace
	}
	fmt.Fprintf(&b, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %q\n  labels: {app: %q}\n", name, name)
	if namespace != "" {
		fmt.Fprintf(&b, "  namespace: %q\n", namespace)
	}
	b.WriteString("  annotations:\n    example.com/other: x\n")
	for _, a := range annotations {
		name, value, _ := strings.Cut(a, "=")
		fmt.Fprintf(&b, "    %s%s: %q\n", night.Prefix, name, value)
	}
	b.WriteString("spec: {replicas: 3}\n")
	return b.String()
}
