package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestInvocation(t *testing.T) {
	for _, tc := range []struct{ argv, name, args string }{
		{"schedule-night", "schedule-night", ""},
		{"./bin/schedule-night plan -A", "schedule-night", "plan -A"},
		{"/tmp/go-build1/b001/exe/schedule-night --help", "schedule-night", "--help"},
		{"/usr/local/bin/kubectl-schedule_night plan -A", "kubectl schedule-night", "plan -A"},
		{"kubectl-schedule_night.exe plan", "kubectl schedule-night", "plan"},
		{"/usr/local/bin/kubectl_complete-schedule_night plan --o", "kubectl schedule-night", "__complete plan --o"},
	} {
		name, args := invocation(strings.Fields(tc.argv))
		if name != tc.name || !slices.Equal(args, strings.Fields(tc.args)) {
			t.Errorf("%s: got %q %q, want %q %q", tc.argv, name, args, tc.name, tc.args)
		}
	}
}

// TestPluginHelp: wherever the help names the program, it says what the user types.
func TestPluginHelp(t *testing.T) {
	for _, args := range []string{"--help", "plan --help", "release --help", "--version"} {
		var out bytes.Buffer
		cmd := newCommand()
		setName(cmd, "kubectl schedule-night")
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
		{[]string{"--log-format", ""}, []string{"text\n", "json\n"}},
	} {
		got := run(append([]string{"__complete"}, tc.args...)...)
		for _, want := range tc.want {
			if !strings.Contains("\n"+got, "\n"+want) {
				t.Errorf("%q: no %q in %q", tc.args, want, got)
			}
		}
	}
}
