package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	policy       = "schedule-night-annotations"
	policyDenied = "ValidatingAdmissionPolicy '" + policy + "' with binding '" + policy + "' denied request: "
)

// installPolicy applies the policy of deploy/extras, waits until it holds, and takes
// it away at the end: other tests make Deployments that it would refuse.
func installPolicy(t *testing.T, ns string) {
	t.Helper()
	file := repoFile("deploy/extras/validating-admission-policy.yaml")
	holds := func(want bool) {
		t.Helper()
		deadline := time.Now().Add(eventually)
		for (tryCreate(context.Background(), ns, map[string]string{prefix + "on": "yes"}) != "") != want {
			if time.Now().After(deadline) {
				t.Fatalf("not within %v: the policy holds: %t", eventually, want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Cleanup(func() {
		if out, err := runKubectl(context.Background(), "delete", "--ignore-not-found", "-f", file); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		holds(false)
	})
	kubectl(t, "apply", "-f", file)
	holds(true)
}

// tryCreate sends a Deployment with the annotations to the API server, which stores
// nothing, and returns why it is refused.
func tryCreate(ctx context.Context, ns string, annotations map[string]string) string {
	d := newDeployment(ns, "web", 1)
	d.Annotations = annotations
	_, err := plane.Client.AppsV1().Deployments(ns).Create(ctx, d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return refusal(err)
}

// refusal is what the policy says; any other error is told in full.
func refusal(err error) string {
	if err == nil {
		return ""
	}
	_, says, ok := strings.Cut(err.Error(), policyDenied)
	if !ok {
		return "not refused by the policy: " + err.Error()
	}
	return says
}

// tryAll tries to create a Deployment with each of the annotations.
func tryAll(t *testing.T, ns string, cases []map[string]string) []string {
	t.Helper()
	refusals := make([]string, len(cases))
	var wg sync.WaitGroup
	const clients = 4
	for i := range clients {
		wg.Go(func() {
			for n := i; n < len(cases); n += clients {
				refusals[n] = tryCreate(t.Context(), ns, cases[n])
			}
		})
	}
	wg.Wait()
	return refusals
}

// programSays is what the program finds wrong with each of the annotations, at a time
// that is later than any awake-until or asleep-until.
func programSays(t *testing.T, cases []map[string]string) []string {
	t.Helper()
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for i, annotations := range cases {
		d := newDeployment("default", fmt.Sprintf("d%06d", i), 1)
		d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
		d.Annotations = annotations
		items = append(items, d)
	}
	list["items"] = items
	manifest, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "plan", "-f", "-", "-o", "json", "--for", "1m", "--from", "9999-01-01T00:00:00Z")
	cmd.Stdin = bytes.NewReader(manifest)
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
		t.Fatalf("plan: %v", err)
	}
	var rows []struct{ Name, Error string }
	if err := json.Unmarshal(out, &rows); err != nil || len(rows) != len(cases) {
		t.Fatalf("plan: %d rows for %d Deployments: %v", len(rows), len(cases), err)
	}
	says := make([]string, len(cases))
	for i, row := range rows {
		if row.Name != fmt.Sprintf("d%06d", i) {
			t.Fatalf("plan: row %d is %s", i, row.Name)
		}
		says[i] = row.Error
	}
	return says
}

// annotated are annotations, given as name=value without the prefix, of a Deployment
// that is managed.
func annotated(list ...string) map[string]string {
	annotations := map[string]string{prefix + "on": "true", prefix + "expected": "3"}
	for _, a := range list {
		name, value, _ := strings.Cut(a, "=")
		annotations[prefix+name] = value
	}
	return annotations
}

// caseRows are the rows of a tab-separated file of the language's own tests, as maps
// from its heading.
func caseRows(t *testing.T, file string) []map[string]string {
	t.Helper()
	text, err := os.ReadFile(repoFile("internal/night/testdata/cases/" + file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	heading := strings.Split(lines[0], "\t")
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range strings.Split(line, "\t") {
			row[heading[i]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

// policyEdges are values on either side of what is valid; the program says which.
var policyEdges = map[string][]string{
	"on": {"true", "t", "T", "1", "TRUE", "True", "false", "f", "F", "0", "FALSE", "False", "tRUE", "on", "2", "true ", "\n"},
	"expected": {
		"0", "00", "007", "2147483647", "2147483648", "0000000002147483647", "00000000000000000000000000000000003", "4294967296", "99999999999",
		"99999999999999999999999999", "0000000003", "00000000003", "+3", "-0", "1_000", "0x3", "3 ", "3\n", "٣", "1e3", "3,0", "\"5\"",
	},
	"night-replicas": {"0", "00", "2147483647", "2147483648", "+1", "", " 1", "1.0"},
	"daytime":        {"enforce", "wake-only", "Enforce", "wake-only ", "wakeonly", ""},
	"wake-delay": {
		"0", "+0", "-0", "0s", "-0s", "24h", "24h0m0s", "23h60m", "1440m", "86400s", "86400000ms", "86400000000us", "86400000000µs", "86400000000μs", "86400000000000ns",
		"24h1ns", "24h0.5ns", "86400000000001ns", "1440m1s", "1h30m", "1.5h", ".5h", "1.h", "1.h.5m", "0.000000000000000000000000000001h", "000000000000000024h", "-1ns",
		"-0.1ns", "25h", "99999999999999999999h", "9999999h", "1000000h", "", "10", "h", ".h", ".", "1h-1m", "1d", "1H", "10 m", "1h 30m", " 1h", "1h\n", "1,5h", "+-1h",
		"--1h", "00", "0h0", "1e3s", "∞",
	},
	"timezone": {
		"UTC", "GMT", "Europe/Berlin", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+5", "Etc/GMT-14", "EST5EDT", "CET", "Factory", "NZ-CHAT",
		"europe/berlin", "Europe/Berlin ", " UTC", "Europe//Berlin", "./UTC", "/UTC", "UTC/", "Europe/../UTC", "Europe", "+01:00", "01:00", "UTC+1", "GMT+0", "EST5", "local", "Local",
		"localtime", "Z", "C:", "Europe\\Berlin", "Zürich", "zone.tab", "..", ".", "-",
	},
	"awake-until": {
		"2026-11-30T02:00:00+01:00", "2026-11-30T01:00:00Z", "2026-11-30T01:00:00.5Z", "2026-11-30T01:00:00.123456789123Z", "2026-11-30T01:00:00-00:00", "0000-01-01T00:00:00Z",
		"2026-11-30T01:00:00+24:00", "2026-11-30T01:00:00+23:60", "2026-11-30T01:00:00+24:60", "2026-11-30T01:00:00+25:00", "2026-11-30T01:00:00+00:61", "2024-02-29T00:00:00Z", "0000-02-29T00:00:00Z",
		"2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T23:59:60Z", "2026-11-30T1:00:00Z", "2026-11-30T01:00Z", "2026-11-30T01:00:00", "2026-11-30T01:00:00,5Z",
		"2026-11-30T01:00:00.Z", "2026-11-30t01:00:00Z", "2026-11-30T01:00:00z", "2026-11-30 01:00:00Z", "2026-11-30T01:00:00Z ", "2026-11-30T01:00:00+0100", "2026-11-30T01:00:00+01", "12026-11-30T01:00:00Z",
		"2026-13-01T01:00:00Z", "2026-00-01T01:00:00Z", "2026-01-00T01:00:00Z", "2026-11-30", "+2026-11-30T01:00:00Z", "now", "",
	},
	"window": {
		"21:00-07:00", "21:00 - 07:00", "21:00\t-\r\n07:00", "00:00-24:00", "Mon21:00-07:00", "mon - FRI\n21:00-07:00", "Sat-Mon 20:00-08:00", "Sun-Sun 01:00-02:00", "Sat, Sun 00:00-24:00",
		"Mon, 21:00-07:00", "Mon,21:00-07:00,Tue,Wed 20:00-06:00", "2026-12-24/2026-12-26, Mon 00:00-24:00", "2026-12-24 / 2026-12-24 00:00-24:00", "2026-12-2421:00-07:00", "2026-12-24/2026-12-2521:00-07:00",
		"2024-02-29 00:00-24:00", "2000-02-29 00:00-24:00", "0000-02-29 00:00-24:00", "0000-01-01/9999-12-31 00:00-24:00", "00:00-01:00,02:00-03:00,04:00-05:00,06:00-07:00,08:00-09:00",
		"1900-02-29 00:00-24:00", "2023-02-29 00:00-24:00", "2026-02-30 00:00-24:00", "2026-04-31 00:00-24:00", "2026-06-31 00:00-24:00", "2026-09-31 00:00-24:00", "2026-11-31 00:00-24:00", "2026-01-32 00:00-24:00",
		"2026-00-01 00:00-24:00", "2026-13-01 00:00-24:00", "2026-12-00 00:00-24:00", "2026-12-24/2026-12-23 00:00-24:00", "2026-12-24-2026-12-26 00:00-24:00", "2026-1-1 00:00-24:00", "202-12-24 00:00-24:00",
		"20261-12-24 00:00-24:00", "2026-12-241 00:00-24:00", "Mon/Fri 21:00-07:00", "Mon- 21:00-07:00", "Mon-21:00-07:00", "Mon--Fri 21:00-07:00", "Mon-Fri-Sun 21:00-07:00", "Mon Fri 21:00-07:00", "Monday 21:00-07:00",
		"Mon-Friday 21:00-07:00", "###21:00-07:00", "### 21:00-07:00", "ſat 21:00-07:00", "M on 21:00-07:00", "Mon–Fri 21:00-07:00", "Mon-2026-12-24 21:00-07:00", "2026-12-24/Mon 21:00-07:00", "2026-12-24/ 21:00-07:00", "Mon,,Tue 21:00-07:00", ",21:00-07:00", "Mon,",
		"21:00-07:00,", "21:00-07:00,,", "21:00-07:00 ,Mon", "21:00", "21:00-", "21:00 -", "-07:00", "-", ",", "/", " ", "", "Mon", "Mon-", "2026-12-24", "2026-12-24/", "21:00-07:00-08:00", "21:00-07:00 22:00-23:00", "21:00/07:00", "21:00-07:00 Mon",
		"21:00-21:00", "21:00-07:00, 00:00 - 00:00", "24:00-07:00", "24:00-24:00", "21:00-24:30", "21:60-07:00", "25:00-07:00", "21:00-07:60", "21:00-7:00", "9:00-17:00", "021:00-07:00", "21:000-07:00", "21.00-07.00", "2100-0700", "21:00:00-07:00:00",
		"9pm-7am", "21:00-07:00Z", "21: 00-07:00", "21:00\u201307:00", "21:00\f-07:00", "21:00\v-07:00", " 21:00-07:00", "21:00-07:00\n", "２１:00-07:00", "21:00-07:00 Europe/Berlin", "Mon-Fry 21:00-07:00",
		strings.Repeat("x", 120), strings.Repeat("Mon,", 40) + "Fry 21:00-07:00", "21:00-07:00" + strings.Repeat(" ", 200) + "x", strings.Repeat("Mon,", 1024) + "Mon",
	},
	"except": {
		"Mon", "mon", "Mon-Wed", "Sat - Mon", "Mon, 2026-12-24, 2026-12-24/2026-12-31", "2026-12-24/2026-12-24", "2024-02-29", "Mon,\tTue\r\n,Wed", "Mon ,Tue",
		"2025-02-29", "2026-12-31/2026-12-24", "2026-12-24/2026-13-01", "2026-12-24/", "2026-12-24/Mon", "Mon/Tue", "Mon-", "Mon,", ",Mon", ",", "", " ", " Mon", "Mon ", "Mon Tue", "Mon;Tue", "21:00", "Mon 21:00-07:00", "20:00-21:00",
		"2026", "12-24", "2026-12", "2026-12-24 21:00", "2026-12-24T00:00:00Z", "24.12.2026", "Monday", "Mond", "Mon-Friday", "2026-12-241", "Christmas", "###", "ſun", "Mon-2026-12-24", "Mon\f", "--", "Mon-Tue-Wed",
	},
}

// policyOtherWords are values that the policy refuses in other words than the program:
// what cannot be seen is not escaped, what is long is cut by characters, a date that
// does not exist is told after all else, and an overflow is an error of CEL.
var policyOtherWords = []string{
	"expected=1\x00", "timezone=Europe/Berlin\x00", "window=21:00\u00a0-07:00", "window=\u00a021:00-07:00", "window=21:00-07:00\u2028",
	"window=" + strings.Repeat("ä", 4000), "window=2026-02-30", "except=2026-02-30,Fry", "wake-delay=99999999999999ms", "timezone=CEST",
}

// mutate changes a text in one or two places.
func mutate(r *rand.Rand, text string) string {
	const alphabet = "0123456789:-,/ \tMonFriatTZhms.+#"
	chars := []rune(text)
	for range 1 + r.IntN(2) {
		at, c := r.IntN(len(chars)+1), rune(alphabet[r.IntN(len(alphabet))])
		switch r.IntN(4) {
		case 0:
			chars = slices.Insert(chars, at, c)
		case 1:
			chars = slices.Delete(chars, max(at-1, 0), at)
		case 2:
			if at < len(chars) {
				chars[at] = c
			}
		case 3: // a piece once more, or left out
			end := min(at+1+r.IntN(6), len(chars))
			if r.IntN(2) == 0 {
				chars = slices.Insert(chars, end, slices.Clone(chars[at:end])...)
			} else {
				chars = slices.Delete(chars, at, end)
			}
		}
	}
	return string(chars)
}

// TestAdmissionPolicy holds the policy of deploy/extras to what the program itself
// takes and refuses.
func TestAdmissionPolicy(t *testing.T) {
	ns := makeNamespace(t)
	ctx := t.Context()
	// Wrong before there was a policy.
	makeDeployment(t, ns, "wrong", 2, "on=true", "expected=2", "window=9pm-7am")
	makeDeployment(t, ns, "right", 2)
	installPolicy(t, ns)

	t.Run("type check", func(t *testing.T) {
		deadline := time.Now().Add(eventually)
		for {
			p, err := plane.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, policy, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				if time.Now().After(deadline) {
					t.Fatalf("not within %v: the controller manager has checked it", eventually)
				}
				time.Sleep(20 * time.Millisecond)
				continue
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s", w.FieldRef, w.Warning)
			}
			return
		}
	})

	t.Run("valid", func(t *testing.T) {
		var cases []map[string]string
		for _, row := range caseRows(t, "schedule.tsv") {
			annotations := annotated()
			for _, name := range []string{"window", "timezone", "except", "awake-until", "asleep-until"} {
				if row[name] != "" {
					annotations[prefix+name] = row[name]
				}
			}
			cases = append(cases, annotations)
		}
		if len(cases) < 400 {
			t.Errorf("%d rows, want at least 400", len(cases))
		}
		for i, refused := range tryAll(t, ns, cases) {
			if refused != "" {
				t.Errorf("%v is refused: %s", cases[i], refused)
			}
		}
	})

	t.Run("invalid", func(t *testing.T) {
		var cases []map[string]string
		for _, row := range caseRows(t, "invalid.tsv") {
			annotations := annotated()
			annotations[row["annotation"]] = row["value"]
			cases = append(cases, annotations)
		}
		if len(cases) < 40 {
			t.Errorf("%d rows, want at least 40", len(cases))
		}
		comparePolicy(t, ns, cases, true)
		for _, annotations := range cases {
			d, err := plane.Client.AppsV1().Deployments(ns).Get(ctx, "right", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			d.Annotations = annotations
			_, err = plane.Client.AppsV1().Deployments(ns).Update(ctx, d, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if refusal(err) == "" {
				t.Errorf("an update to %v is admitted", annotations)
			}
		}
	})

	t.Run("edges", func(t *testing.T) {
		cases := []map[string]string{
			nil, {},
			{prefix + "expected": "x", prefix + "window": "x"},                                                             // not managed
			{prefix + "on": "false", prefix + "expected": "x", prefix + "timezone": "x", prefix + "wake-delay": "999999h"}, // switched off
			{prefix + "on": "true"}, {prefix + "on": "yes", prefix + "expected": "x"},
			{prefix + "on": "false", prefix + "Window": "x"}, {prefix + "Window": "x"},
			annotated("expected=x", "window=y", "timezone=Local", "daytime=z"),
			annotated("except=x", "wake-delay=y", "daytime=z"),
			annotated("timezone=CEST", "daytime=z"),
		}
		for _, name := range slices.Sorted(maps.Keys(policyEdges)) {
			for _, value := range policyEdges[name] {
				cases = append(cases, annotated(name+"="+value))
				if name == "awake-until" {
					cases = append(cases, annotated("asleep-until="+value))
				}
			}
		}
		comparePolicy(t, ns, cases, true)
		cases = nil
		for _, a := range policyOtherWords {
			cases = append(cases, annotated(a))
		}
		if same := comparePolicy(t, ns, cases, false); same > 0 {
			t.Errorf("%d of those with other words have the same", same)
		}
	})

	t.Run("mutants", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		var cases []map[string]string
		for _, name := range slices.Sorted(maps.Keys(policyEdges)) {
			n := 20
			if name == "window" || name == "except" {
				n = 300
			}
			for range n {
				value := policyEdges[name][r.IntN(min(20, len(policyEdges[name])))] // the first are valid
				cases = append(cases, annotated(name+"="+mutate(r, value)))
			}
		}
		comparePolicy(t, ns, cases, false)
	})

	t.Run("longest", func(t *testing.T) {
		fill := func(unit, last string) string { return strings.Repeat(unit, (4096-len(last))/len(unit)) + last }
		var cases []map[string]string
		for _, long := range [][2]string{
			{"Mon,", "Sun"}, {"2026-12-24/2026-12-31,", "Sun"}, {"2024-02-29,", "2000-02-29"}, {"2026-12-24 / 2026-12-31 ,", "Sun"}, {"Mon" + strings.Repeat(" ", 1000) + ",", "Sun"},
		} {
			cases = append(cases, annotated("window="+fill(long[0], long[1]+" 21:00-07:00"), "except="+fill(long[0], long[1]),
				"timezone=America/Argentina/ComodRivadavia", "night-replicas=0", "awake-until=2026-11-30T02:00:00+01:00", "asleep-until=2026-11-30T02:00:00+01:00", "daytime=enforce", "wake-delay=1h"))
		}
		instant := "2026-11-30T02:00:00." + strings.Repeat("1", 4096-len("2026-11-30T02:00:00.Z")) + "Z"
		cases = append(cases,
			annotated("window="+fill("21:00-07:00,", "21:00-07:00"), "except="+fill("Mon,", "Sun")),
			annotated("window="+fill("Mon-Fri 21:00-07:00,", "Sun 21:00-07:00")),
			annotated("window="+fill("2026-12-24/2026-12-31 00:00-24:00,", "Sun 21:00-07:00")),
			annotated("wake-delay="+strings.Repeat("0s", 2048)),
			annotated("awake-until="+instant))
		for i, says := range programSays(t, cases) {
			if says != "" {
				t.Errorf("case %d is not valid: %.300s", i, says)
			}
		}
		for i, refused := range tryAll(t, ns, cases) {
			if refused != "" {
				t.Errorf("case %d is refused: %.300s", i, refused)
			}
		}
		// A byte more, in any of them, is too long, and the rest is not looked at.
		comparePolicy(t, ns, []map[string]string{
			annotated("wake-delay=+" + strings.Repeat("0s", 2048)),
			annotated("awake-until=" + strings.Replace(instant, ".", ".1", 1)),
			annotated("asleep-until=" + strings.Replace(instant, ".", ".1", 1)),
			annotated("window=" + strings.Repeat(" ", 4086) + "21:00-07:00"),
			annotated("except=Mon" + strings.Repeat(" ", 4094)),
			annotated("timezone=" + strings.Repeat("UTC", 1366)),
			annotated("expected=" + strings.Repeat("0", 100_000) + "3"), annotated("night-replicas=" + strings.Repeat("0", 100_000)),
			annotated("daytime=" + strings.Repeat("x", 4097)), annotated("expected=x", "daytime="+strings.Repeat("x", 4097)),
		}, true)
		// And what is longer still than anybody's mistake gets a short answer.
		cases = nil
		for _, name := range slices.Sorted(maps.Keys(policyEdges)) {
			cases = append(cases, annotated(name+"="+strings.Repeat("Mon,", 50_000)))
		}
		for i, refused := range tryAll(t, ns, cases) {
			if !strings.HasPrefix(refused, prefix) || len(refused) > 500 {
				t.Errorf("case %d: %.600s", i, refused)
			}
		}
	})

	// What the program only warns of.
	t.Run("unknown", func(t *testing.T) {
		const known = " has no effect; there are on, expected, window, timezone, night-replicas, except, awake-until, asleep-until, daytime, wake-delay"
		cases := []map[string]string{
			annotated("timeZone=UTC"), annotated("Window=x", "window=x"), annotated("b=", "a=", "c="),
			{prefix + "on": "true", prefix + "Expected": "3"},
		}
		want := []string{"timeZone", "Window", "a", "Expected"}
		for i, refused := range tryAll(t, ns, cases) {
			if refused != prefix+want[i]+known {
				t.Errorf("%v: %s", cases[i], refused)
			}
		}
		if says := programSays(t, cases[:1]); says[0] != "" {
			t.Errorf("the program takes it for a mistake: %s", says[0])
		}
	})

	// The list in the policy's comment and in docs/admission.md.
	t.Run("what it cannot check", func(t *testing.T) {
		cases := []map[string]string{annotated("awake-until=9999-11-30T00:00:00Z", "asleep-until=9999-12-30T00:00:00Z")}
		says, refused := programSays(t, cases), tryAll(t, ns, cases)
		for i := range cases {
			if says[i] == "" || refused[i] != "" {
				t.Errorf("%v: the program says %q, the policy %q", cases[i], says[i], refused[i])
			}
		}
	})

	t.Run("kubectl", func(t *testing.T) {
		for _, tc := range []struct {
			annotations []string
			want        string
		}{
			{[]string{"on=true"}, `Error from server (Forbidden): deployments.apps "right" is forbidden: ` + policyDenied +
				`schedule-night.svc/expected is missing: set it to the replicas wanted in the day, e.g. "3"`},
			{[]string{"on=true", "expected=3", "window=Mon-Fry 21:00-07:00"}, `Error from server (Forbidden): deployments.apps "right" is forbidden: ` + policyDenied +
				`schedule-night.svc/window "Mon-Fry 21:00-07:00": "Fry" is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun or a date such as 2026-12-24`},
			{[]string{"on=true", "expected=3", "timezone=CEST"}, `The deployments "right" is invalid: : ` + policyDenied +
				`expression 'variables.timezoneExists // schedule-night.svc/timezone: want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC'` +
				` resulted in error: composited variable "timezoneExists" fails to evaluate: unknown time zone CEST`},
		} {
			args := []string{"annotate", "-n", ns, "deployment", "right"}
			for _, a := range tc.annotations {
				args = append(args, prefix+a)
			}
			if out, err := runKubectl(ctx, args...); err == nil || strings.TrimSpace(out) != tc.want {
				t.Errorf("%q:\n got %s\nwant %s", tc.annotations, out, tc.want)
			}
		}
	})

	t.Run("ratchet", func(t *testing.T) {
		deployments := plane.Client.AppsV1().Deployments(ns)
		for _, patch := range []string{
			`{"metadata":{"labels":{"a":"b"}}}`,
			`{"metadata":{"annotations":{"example.com/a":"b"}}}`,
			`{"metadata":{"finalizers":["example.com/wait"]}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/app:2"}]}}}}`,
			`{"spec":{"replicas":1}}`,
		} {
			if _, err := deployments.Patch(ctx, "wrong", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Errorf("%s is refused: %v", patch, err)
			}
		}
		kubectl(t, "scale", "-n", ns, "deployment", "wrong", "--replicas=2")
		for _, patch := range []string{
			`{"metadata":{"annotations":{"schedule-night.svc/expected":"3"}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/expected":null}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/daytime":"enforce"}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/window":"9pm-6am"}}}`,
		} {
			_, err := deployments.Patch(ctx, "wrong", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s is admitted: %v", patch, err)
			}
		}
		for _, patch := range []string{ // repaired, switched off, opted out
			`{"metadata":{"annotations":{"schedule-night.svc/window":"21:00-07:00"}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/window":null}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/on":"false"}}}`,
			`{"metadata":{"annotations":{"schedule-night.svc/on":null}}}`,
			`{"metadata":{"annotations":null}}`,
		} {
			if _, err := deployments.Patch(ctx, "wrong", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("%s is refused: %v", patch, err)
			}
		}
	})

	// The controller's own writes pass, also about what is wrong.
	t.Run("controller", func(t *testing.T) {
		start(t).waitLeading()
		annotate(t, ns, "right", "on=true", "expected=2", "window=00:00-24:00")
		waitReplicas(t, ns, "right", 0)
		waitCondition(t, ns, "right", corev1.ConditionTrue, "NightWindow")
		waitCondition(t, ns, "wrong", corev1.ConditionUnknown, "InvalidSchedule")
		annotate(t, ns, "right", "awake-until="+inAnHour())
		waitReplicas(t, ns, "right", 2)
		waitCondition(t, ns, "right", corev1.ConditionFalse, "AwakeUntil")
		for _, r := range audit(t, func(r *request) bool { return r.Writes() && r.Ref != nil && r.Ref.Namespace == ns }) {
			if r.Code.Code >= 400 && r.Code.Code != 409 {
				t.Errorf("%s %s: %d", r.Verb, r.What(), r.Code.Code)
			}
		}
	})

	t.Run("delete", func(t *testing.T) {
		deployments := plane.Client.AppsV1().Deployments(ns)
		if err := deployments.Delete(ctx, "wrong", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitDeployment(t, ns, "wrong", "being deleted", func(d *appsv1.Deployment) bool { return d.DeletionTimestamp != nil })
		if _, err := deployments.Patch(ctx, "wrong", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatalf("taking the finalizer off is refused: %v", err)
		}
		if _, err := deployments.Get(ctx, "wrong", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("still there: %v", err)
		}
	})
}

// comparePolicy wants the policy to refuse what the program does, and nothing else; if
// words is set in the same words, but for a time zone that does not exist. It returns
// how many are refused in the same words.
func comparePolicy(t *testing.T, ns string, cases []map[string]string, words bool) int {
	t.Helper()
	says, refused := programSays(t, cases), tryAll(t, ns, cases)
	same, invalid := 0, 0
	for i, annotations := range cases {
		zone := strings.HasPrefix(says[i], prefix+"timezone ") && strings.HasPrefix(refused[i], "expression 'variables.timezoneExists // schedule-night.svc/timezone: want ")
		if says[i] != "" {
			invalid++
		}
		switch {
		case (says[i] == "") != (refused[i] == ""), words && !zone && says[i] != refused[i]:
			t.Errorf("%q:\nthe program says %q\nthe policy says  %q", annotations, says[i], refused[i])
		case says[i] != "" && says[i] == refused[i]:
			same++
		}
	}
	if invalid == 0 {
		t.Error("nothing is invalid")
	}
	t.Logf("%d cases, %d of them invalid, %d in the same words", len(cases), invalid, same)
	return same
}
