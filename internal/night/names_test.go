package night

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMisspelt(t *testing.T) {
	for name, want := range map[string]string{
		"schedule-night.svc/on":              "-",
		"schedule-night.svc/night-replicas":  "-",
		"example.com/timezone":               "-",
		"timezone":                           "-",
		"":                                   "-",
		"/":                                  "-",
		"schedule-night.svc/timeZone":        "schedule-night.svc/timezone",
		"schedule-night.svc/time-zone":       "schedule-night.svc/timezone",
		"schedule-night.svc/windows":         "schedule-night.svc/window",
		"schedule-night.svc/nightReplicas":   "schedule-night.svc/night-replicas",
		"schedule-night.svc/night_replicas":  "schedule-night.svc/night-replicas",
		"schedule-night.svc/NIGHT-REPLICAS":  "schedule-night.svc/night-replicas",
		"schedule-night.svc/night-replica":   "schedule-night.svc/night-replicas",
		"schedule-night.svc/expceted":        "schedule-night.svc/expected",
		"schedule-night.svc/On":              "schedule-night.svc/on",
		"schedule-night.svc/awake-untill":    "schedule-night.svc/awake-until", //nolint:misspell // on purpose
		"schedule-night.svc/asleepUntil":     "schedule-night.svc/asleep-until",
		"schedule-night.svc/exept":           "schedule-night.svc/except", //nolint:misspell // on purpose
		"schedule-night.svc/":                "",
		"schedule-night.svc/enabled":         "",
		"schedule-night.svc/replicas":        "",
		"schedule-night.svc/of":              "",
		"schedule-night.svc/on/expected":     "",
		"schedulenight.svc/daytime":          "schedule-night.svc/daytime",
		"schedule-night/on":                  "schedule-night.svc/on",
		"schedule-night.io/timeZone":         "schedule-night.svc/timezone",
		"Schedule-Night.svc/window":          "schedule-night.svc/window",
		"schedule-nigth.svc/window":          "schedule-night.svc/window",
		"schedule-night.io/something-else":   "-", // may be somebody else's
		"schedule-day.example.com/window":    "-",
		"schedule-night.svc/" + long("x"):    "",
		long("schedule-night.svc") + "/on":   "-",
		"schedule-night.svc/\x1b[2Jtimezone": "",
	} {
		got := "-"
		for _, m := range Misspelt(map[string]string{name: "x"}) {
			if m.Name != name {
				t.Errorf("%q became %q", name, m.Name)
			}
			got = m.Nearest
		}
		if got != want {
			t.Errorf("%q: nearest %q, want %q", name, got, want)
		}
	}
	got := Misspelt(map[string]string{"schedule-night.svc/b": "", "schedule-night.svc/on": "", "schedule-night.svc/a": "", "schedulenight.svc/on": ""})
	if want := []Misspelling{{"schedule-night.svc/a", ""}, {"schedule-night.svc/b", ""}, {"schedulenight.svc/on", "schedule-night.svc/on"}}; !slices.Equal(got, want) {
		t.Errorf("got %s", got)
	}
	want := "schedule-night.svc/b has no effect; there are on, expected, window, timezone, night-replicas, except, awake-until, asleep-until, daytime, wake-delay"
	if text := got[1].String(); text != want {
		t.Errorf("it reads %s", text)
	}
}

func long(text string) string { return strings.Repeat(text, 1000) }

// TestMeant: whoever writes such names means us, spelt rightly or not.
func TestMeant(t *testing.T) {
	got := Meant(map[string]string{"schedule-night.svc/on": "", "schedule-night.svc/odd": "", "schedule-night/window": "", "app": "", "schedule-night.io/odd": ""})
	if want := []string{"schedule-night.svc/odd", "schedule-night.svc/on", "schedule-night/window"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if Meant(nil) != nil || Misspelt(nil) != nil {
		t.Error("nothing is something")
	}
}

func TestNameLengths(t *testing.T) {
	for _, name := range AnnotationNames {
		if prefix, rest, _ := strings.Cut(name, "/"); len(prefix+"/") > maxName || len(rest) > maxName {
			t.Errorf("%s is longer than maxName", name)
		}
	}
}

// BenchmarkMisspelt is over the worst that an object can hold.
func BenchmarkMisspelt(b *testing.B) {
	annotations := map[string]string{}
	for i := range 6000 { // 256 KiB, all that an object can have
		annotations[fmt.Sprintf("schedulenight.svc/night-replicaa%08d", i)] = ""
	}
	for b.Loop() {
		Misspelt(annotations)
	}
}

// TestUnknown: with our very prefix, and none of ours.
func TestUnknown(t *testing.T) {
	got := Unknown(map[string]string{AnnotationOn: "", Prefix + "window": "", Prefix + "timeZone": "", Prefix + "On": "", Prefix: "", "schedule-nigth.svc/on": "", "example.com/on": ""})
	if want := []string{Prefix, Prefix + "On", Prefix + "timeZone"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	known := map[string]string{}
	for _, name := range AnnotationNames {
		known[name] = ""
	}
	if got := Unknown(known); got != nil {
		t.Errorf("of all that are known, %q are not", got)
	}
	if n := testing.AllocsPerRun(100, func() { Unknown(known) }); n > 0 {
		t.Errorf("to look allocates %v times", n)
	}
}

// TestPolicyKnowsNames: the admission policy refuses what it does not know.
func TestPolicyKnowsNames(t *testing.T) {
	policy, err := os.ReadFile("../../deploy/extras/validating-admission-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := "['" + strings.Join(AnnotationNames[:], "', '") + "']"
	if got := strings.Join(strings.Fields(string(policy)), " "); !strings.Contains(got, want) {
		t.Errorf("the policy does not have the list %s", want)
	}
}
