package main

import (
	"bytes"
	"errors"
	"io"
	"schedule-night/internal/cli"
	"strings"
	"testing"
)

// TestFlagErrors: a bad value stops the program at the start, and says what is right.
func TestFlagErrors(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--window=9pm-7am", `"9pm" is not a start; use HH:MM, 00:00 to 23:59`},
		{"--timezone=CEST", `--timezone "CEST": want the name of an IANA time zone`},
		{"--night-replicas=-1", `--night-replicas "-1": want replicas as decimal digits`},
		{"--namespace=A", `--namespace "A": is not a namespace`},
		{"--exclude-namespaces=a/b", `--exclude-namespaces "a/b": is not a namespace`},
		{"--namespace=kube-system", `--namespace "kube-system": is never managed`},
		{"--namespace=a --exclude-namespaces=a", `--namespace "a": is among --exclude-namespaces`},
		{"--workers=0", `--workers "0": want 1 to 1000`},
		{"--resync=1ms", `--resync "1ms": want 1s or more`},
		{"--kube-api-qps=0", `--kube-api-qps "0": want more than 0, or -1`},
		{"--kube-api-burst=0", `--kube-api-burst "0": want 1 or more`},
		{"--listen-address=8080", `--listen-address "8080": want host:port or :port`},
		{"--leader-elect-lease-duration=5s", `--leader-elect-lease-duration "5s": want at least a second more`},
		{"--logging-format=xml", `--logging-format "xml": Unsupported log format`},
		{"--log-format=xml", `--logging-format "xml": Unsupported log format`},
		{"--v=-1", `--v "-1": strconv.ParseUint`},
		{"--logging-format=json --vmodule=controller=4", `--vmodule "controller=4": Only supported for text log format`},
		{"--vmodule=x", `--vmodule "x": `},
		{"--workers=x", `--workers "x": strconv.ParseInt`},
		{"--leader-elect-retry-period=0", `--leader-elect-retry-period "0s": want more than 0s`},
		{"--no-such-flag", "unknown flag: --no-such-flag"},
		{"no-such-command", `unknown command "no-such-command"`},
	} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(tc.args))
		cmd.SetOut(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.args, err, tc.want)
		}
		if !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%s: %T is not told apart from a failure", tc.args, err)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Schedule defaults flags:", "Leader election flags:", "(default 21:00-07:00)", "(default 15s)", "(default 16)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the help", want)
		}
	}
}

// TestPluginHelp: wherever the help names the program, it says what the user types.
func TestPluginHelp(t *testing.T) {
	for _, args := range []string{"--help", "plan --help", "release --help", "--version"} {
		var out bytes.Buffer
		cmd := newCommand()
		cli.SetName(cmd, "kubectl schedule-night")
		cmd.SetOut(&out)
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		named := false
		for line := range strings.Lines(out.String()) {
			for _, typed := range []string{"schedule-night [flags]", "schedule-night version", "schedule-night plan", "schedule-night release"} {
				if i := strings.Index(line, typed); i >= 0 {
					named = true
					if !strings.HasSuffix(line[:i], "kubectl ") {
						t.Errorf("%s: got %q", args, line)
					}
				}
			}
		}
		if !named {
			t.Errorf("%s: the program is not named in %s", args, &out)
		}
	}
}

// TestCompletion: each shell has a script that asks the program, and the program answers.
func TestCompletion(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := newCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_schedule-night schedule-night",
		"zsh":  "#compdef schedule-night",
		"fish": "complete -c schedule-night",
	} {
		if script := run("completion", shell); !strings.Contains(script, want) || !strings.Contains(script, "__complete") {
			t.Errorf("%s: %q is not in %s", shell, want, script)
		}
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{""}, []string{"plan\t", "release\t", "completion\t"}},
		{[]string{"plan", "--out"}, []string{"--output\t"}},
		{[]string{"plan", "-o", ""}, []string{"json\n"}},
		{[]string{"--logging-format", ""}, []string{"text\n", "json\n"}},
	} {
		got := run(append([]string{"__complete"}, tc.args...)...)
		for _, want := range tc.want {
			if !strings.Contains("\n"+got, "\n"+want) {
				t.Errorf("%q: no %q in %q", tc.args, want, got)
			}
		}
	}
}

func TestVersionFlag(t *testing.T) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "schedule-night version "+cli.Version()+"\n" {
		t.Errorf("got %q", got)
	}
}
