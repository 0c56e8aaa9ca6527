package cli

import (
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
		name, args := Invocation(strings.Fields(tc.argv))
		if name != tc.name || !slices.Equal(args, strings.Fields(tc.args)) {
			t.Errorf("%s: got %q %q, want %q %q", tc.argv, name, args, tc.name, tc.args)
		}
	}
}
