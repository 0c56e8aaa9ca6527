package convert

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"schedule-night/internal/cli"
	"schedule-night/internal/cli/clitest"
	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload/workloadtest"
)

// testConverter is the one that no flags make.
func testConverter(defaults night.Schedule, now time.Time) *converter {
	return &converter{
		defaults:   defaults,
		flags:      map[string]string{downscalerUptime: "always", downscalerDowntime: "never", downscalerDowntimeReplicas: "0"},
		scope:      cli.Scope{Selector: labels.Everything()},
		kubectl:    []string{"kubectl"},
		now:        now,
		namespaces: map[string]map[string]string{},
	}
}

// runConvert runs the command convert.
func runConvert(t *testing.T, stdin string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	return clitest.Run(t, NewCommand(), stdin, args...)
}

// oldDeployment is web in namespace shop, with annotations of kube-downscaler, each
// as name=value without the prefix.
func oldDeployment(replicas int32, annotations ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: oldAnnotations(annotations...)},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func oldAnnotations(annotations ...string) map[string]string {
	result := map[string]string{}
	for _, a := range annotations {
		name, value, _ := strings.Cut(a, "=")
		result[downscalerPrefix+name] = value
	}
	return result
}

// converted prints a conversion without what is the same in all: each annotation as
// name=value without the prefix, then notes and losses.
func converted(t *testing.T, c *converter, d *appsv1.Deployment) string {
	t.Helper()
	v := c.convert(d)
	var lines []string
	if v.ok {
		if _, err := night.ParseSchedule(v.annotations, c.defaults); err != nil {
			t.Errorf("%v: %v", v.annotations, err)
		}
		var words []string
		for _, name := range []string{night.AnnotationExpected, night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationNightReplicas, night.AnnotationAwakeUntil} {
			if value, ok := v.annotations[name]; ok {
				words = append(words, strings.TrimPrefix(name, night.Prefix)+"="+value)
			}
		}
		lines = append(lines, strings.Join(words, " | "))
	}
	for _, note := range v.notes {
		lines = append(lines, "note: "+note)
	}
	for _, lost := range v.lost {
		lines = append(lines, "lost: "+lost)
	}
	return strings.Join(lines, "\n")
}

func TestConvertDownscaler(t *testing.T) {
	now := nighttest.Time(t, "2026-11-29T12:00:00Z") // a Sunday
	const office = "uptime=Mon-Fri 08:00-18:00 Europe/Berlin"
	for _, tc := range []struct {
		name       string
		deployment string // annotations, divided by "; "
		namespace  string
		flags      string
		replicas   int32
		want       string
	}{
		{name: "nothing", want: ""},
		{name: "uptime", deployment: office,
			want: "expected=3 | window=18:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Berlin"},
		{name: "of the Namespace", namespace: office,
			want: "expected=3 | window=18:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Berlin"},
		{name: "of the flags", flags: office,
			want: "expected=3 | window=18:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Berlin"},
		{name: "the Deployment's wins", deployment: "uptime=Mon-Sun 07:00-19:00 UTC", namespace: office,
			want: "expected=3 | window=19:00-07:00 | timezone=UTC"},
		{name: "always again", deployment: "uptime=Always", namespace: office,
			want: "note: never asleep; left out"},
		{name: "uptime and downtime", deployment: "uptime=Mon-Sun 07:00-19:00 UTC", namespace: "downtime=Sat-Sun 00:00-24:00 UTC",
			want: "expected=3 | window=19:00-07:00, Sat-Sun 00:00-24:00 | timezone=UTC"},
		{name: "downtime", deployment: "downtime=Sat-Sun 00:00-24:00 CET,Fri-Fri 20:00-24:00 CET",
			want: "expected=3 | window=Sat-Sun 00:00-24:00, Fri 20:00-24:00 | timezone=CET"},
		{name: "days that wrap", deployment: "uptime=Sun-Thu 08:00-18:00 Asia/Jerusalem",
			want: "expected=3 | window=18:00-08:00, Fri-Sat 00:00-24:00 | timezone=Asia/Jerusalem"},
		{name: "a part of the day, twice", deployment: "uptime=mon-fri 08:00-12:00 UTC, Mon-Fri 13:00-17:00 UTC",
			want: "expected=3 | window=17:00-08:00, Sat-Sun 00:00-24:00, 12:00-13:00 | timezone=UTC"},
		{name: "a year off", deployment: "downtime=Always",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "Saturday alone", deployment: "downtime=Sat-Sat 12:00-13:00 UTC",
			want: "expected=3 | window=Sat 12:00-13:00 | timezone=UTC"},
		{name: "to the last minute", deployment: "uptime=Mon-Sun 00:00-23:59 UTC",
			want: "expected=3 | window=23:59-24:00 | timezone=UTC\nnote: downscaler/uptime ends at 23:59, and so does this: write 24:00 if the whole day is meant"},

		{name: "asleep now", deployment: office + "; original-replicas=5", replicas: -1,
			want: "expected=5 | window=18:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Berlin"},
		{name: "asleep, nobody knows from what", deployment: "downtime=Always", replicas: -1,
			want: "note: the schedule would be \"00:00-24:00\" UTC\nlost: cannot tell the replicas of the day: there are 0 now; run this again while it is awake, or add schedule-night.svc/expected yourself"},
		{name: "replicas of the night", deployment: "downtime=Always; downtime-replicas=1",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=1"},
		{name: "replicas of the night, on the Namespace", deployment: "downtime=Always", namespace: "downtime-replicas=2",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=2"},
		{name: "never more at night", deployment: "downtime=Always; downtime-replicas=3",
			want: "note: never scaled down: 3 replicas are not above the 3 of the night; if it sleeps now, run this again while it is awake"},
		{name: "never so many", deployment: "downtime=Always; downtime-replicas=4",
			want: "note: never scaled down: 3 replicas are not above the 4 of the night"},
		{name: "never more than there were", deployment: "downtime=Always; downtime-replicas=3; original-replicas=3",
			want: "note: never scaled down: 3 replicas are not above the 3 of the night"},
		{name: "replicas of the night, as GoKubeDownscaler says", deployment: "downtime=Always; downscale-replicas=1",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=1"},
		{name: "the same on the Namespace", deployment: "downtime=Always", namespace: "downscale-replicas=1",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=1"},
		{name: "the same over the flag", deployment: "downtime=Always; downscale-replicas=1", flags: "downtime-replicas=2",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=1"},
		{name: "both names agree", deployment: "downtime=Always; downscale-replicas=1", namespace: "downtime-replicas=1",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | night-replicas=1"},
		{name: "both names differ", deployment: "downtime=Always; downscale-replicas=1", namespace: "downtime-replicas=2",
			want: `lost: downscaler/downtime-replicas "2" is for py-kube-downscaler and downscaler/downscale-replicas "1" for GoKubeDownscaler; take one away`},
		{name: "a part of them, as GoKubeDownscaler says", deployment: "downtime=Always; downscale-replicas=50%",
			want: `lost: downscaler/downscale-replicas "50%": want replicas as decimal digits alone, 0 to 2147483647`},
		{name: "a part of the replicas", deployment: "downtime=Always; downtime-replicas=50%",
			want: `lost: downscaler/downtime-replicas "50%": want replicas as decimal digits alone, 0 to 2147483647`},
		{name: "odd original", deployment: "downtime=Always; original-replicas=x",
			want: `lost: downscaler/original-replicas "x": want replicas as decimal digits alone, 0 to 2147483647`},

		{name: "excluded", deployment: "exclude=TRUE", namespace: office,
			want: `note: left out: downscaler/exclude "TRUE"`},
		{name: "excluded by anything", deployment: "exclude=perhaps; " + office,
			want: `note: left out: downscaler/exclude "perhaps"`},
		{name: "not excluded", deployment: "exclude=False; downtime=Always",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "the Namespace excluded", deployment: "exclude=false; " + office, namespace: "exclude=true",
			want: `note: left out: downscaler/exclude "true" of the Namespace`},
		{name: "excluded until", deployment: "downtime=Always; exclude-until=2026-12-01", namespace: "exclude-until=2026-12-02 06:00",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | awake-until=2026-12-02T06:00:00Z"},
		{name: "excluded until long ago", deployment: "downtime=Always; exclude-until=2025-12-01T00:00:00Z",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "excluded until, with an offset", deployment: "downtime=Always; exclude-until=2026-12-24T18:00:00+01:00",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | awake-until=2026-12-24T18:00:00+01:00"},
		{name: "excluded until, whichever is later", deployment: "downtime=Always; exclude-until=2026-12-24T18:00:00+01:00", namespace: "exclude-until=2026-12-24T17:30:00Z",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC | awake-until=2026-12-24T17:30:00Z"},
		{name: "excluded until who knows", deployment: "downtime=Always; exclude-until=soon",
			want: `lost: downscaler/exclude-until "soon": want such as 2026-12-24, 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00`},
		{name: "excluded at times", deployment: "downtime=Always; exclude=Mon-Fri 08:00-18:00 UTC",
			want: `lost: downscaler/exclude "Mon-Fri 08:00-18:00 UTC": py-kube-downscaler leaves it alone for ever, GoKubeDownscaler at these times; write true, or the window that is meant`},
		{name: "excluded at times of the Namespace", deployment: "downtime=Always", namespace: "exclude=2026-12-24T00:00:00Z-2026-12-27T00:00:00Z",
			want: `lost: downscaler/exclude "2026-12-24T00:00:00Z-2026-12-27T00:00:00Z" of the Namespace: py-kube-downscaler leaves it alone for ever, GoKubeDownscaler at these times; write true, or the window that is meant`},

		{name: "forced up", deployment: office, namespace: "force-uptime=true",
			want: "lost: downscaler/force-uptime has no end: take it away and run this again, or write schedule-night.svc/awake-until or schedule-night.svc/asleep-until"},
		{name: "forced down", namespace: "force-downtime=True",
			want: "lost: downscaler/force-downtime has no end: take it away and run this again, or write schedule-night.svc/awake-until or schedule-night.svc/asleep-until"},
		{name: "forced by nothing", deployment: "downtime=Always", namespace: "force-uptime=False; force-downtime=",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "forced up at times", deployment: "downtime=Always", namespace: "force-uptime=Wed-Wed 10:00-11:00 UTC",
			want: "expected=3 | window=11:00-10:00, Mon-Tue, Thu-Sun 00:00-24:00 | timezone=UTC"},
		{name: "forced down at times", namespace: "force-downtime=Wed-Wed 10:00-11:00 UTC",
			want: "expected=3 | window=Wed 10:00-11:00 | timezone=UTC"},
		{name: "forced by itself", deployment: "force-uptime=true; " + office,
			want: `lost: downscaler/force-uptime "true" on a Deployment: py-kube-downscaler does not read it there, GoKubeDownscaler does; take it away, or write the window that is meant`},
		{name: "periods", deployment: "downscale-period=Mon-Fri 20:00-21:00 UTC",
			want: "lost: upscale-period and downscale-period act within a time and let go after it; there is nothing like it here"},

		{name: "a grace period", deployment: "downtime=Always; grace-period=30m",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: downscaler/grace-period \"30m\": a new Deployment is put to sleep at once here"},
		{name: "a grace period of the Namespace", deployment: "downtime=Always", namespace: "grace-period=30m",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: downscaler/grace-period \"30m\" of the Namespace: a new Deployment is put to sleep at once here"},
		{name: "a grace period of what never sleeps", deployment: "uptime=always; grace-period=30m; scale-children=true",
			want: "note: never asleep; left out"},
		{name: "a grace period of what is broken", deployment: "uptime=x; grace-period=30m",
			want: "lost: downscaler/uptime \"x\": want always, never, or such as Mon-Fri 08:00-18:00 Europe/Berlin\nlost: downscaler/grace-period \"30m\": a new Deployment is put to sleep at once here"},
		{name: "children", deployment: "downtime=Always; scale-children=true",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: downscaler/scale-children \"true\": what a workload owns is not scaled with it here"},
		{name: "no children", deployment: "downtime=Always; scale-children=False",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "excluded ones are woken, as here", deployment: "downtime=Always; upscale-excluded=true",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "a name of neither", deployment: "downtime=Always; uptimes=x", namespace: "Downtime=x",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: downscaler/uptimes \"x\": neither py-kube-downscaler nor GoKubeDownscaler has such an annotation\n" +
				"lost: downscaler/Downtime \"x\" of the Namespace: neither py-kube-downscaler nor GoKubeDownscaler has such an annotation"},
		{name: "a name of neither, alone", deployment: "uptimes=x",
			want: "note: never asleep; left out\nlost: downscaler/uptimes \"x\": neither py-kube-downscaler nor GoKubeDownscaler has such an annotation"},
		{name: "excluded, and a name of neither", deployment: "exclude=true; uptimes=x",
			want: `note: left out: downscaler/exclude "true"`},

		{name: "an awake range now", deployment: "uptime=2026-11-28T00:00:00+00:00-2026-11-30T01:00:00+01:00, Mon-Fri 08:00-18:00 UTC",
			want: "expected=3 | window=18:00-08:00, Sat-Sun 00:00-24:00 | timezone=UTC | awake-until=2026-11-30T01:00:00+01:00"},
		{name: "an awake range ahead", deployment: "uptime=2026-12-28T00:00:00+00:00-2026-12-30T00:00:00+00:00",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: the uptime 2026-12-28T00:00:00Z to 2026-12-30T00:00:00Z, which is still ahead: set schedule-night.svc/awake-until=2026-12-30T00:00:00Z once it has begun"},
		{name: "an awake range that is over", deployment: "uptime=2025-12-28T00:00:00+00:00-2025-12-30T00:00:00+00:00",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC"},
		{name: "an awake range and downtime", deployment: "uptime=2026-11-28T00:00:00+00:00-2026-11-30T00:00:00+00:00; downtime=Sun-Sun 00:00-12:00 UTC",
			want: "expected=3 | window=00:00-24:00 | timezone=UTC\nlost: the uptime 2026-11-28T00:00:00Z to 2026-11-30T00:00:00Z, which a downtime may overrule"},
		{name: "an asleep range", deployment: "uptime=Mon-Sun 08:00-18:00 Europe/Berlin; downtime=2026-12-23T12:00:00+00:00-2026-12-26T23:00:00+00:00",
			want: "expected=3 | window=18:00-08:00, 2026-12-23 13:00-24:00, 2026-12-24/2026-12-26 00:00-24:00 | timezone=Europe/Berlin"},
		{name: "an asleep range of hours", deployment: "downtime=2026-12-23T12:00:00+00:00-2026-12-23T13:30:00+00:00",
			want: "expected=3 | window=2026-12-23 12:00-13:30 | timezone=UTC"},
		{name: "an asleep range of seconds", deployment: "downtime=2026-12-23T12:00:01+00:00-2026-12-23T13:00:00+00:00,Mon-Mon 01:00-02:00 UTC",
			want: "expected=3 | window=Mon 01:00-02:00 | timezone=UTC\nlost: the downtime 2026-12-23T12:00:01Z to 2026-12-23T13:00:00Z: 2026-12-23T12:00:01Z is no whole minute of UTC, or is in an hour that its clocks repeat"},

		{name: "over midnight", deployment: "downtime=Mon-Fri 20:00-06:00 UTC",
			want: `lost: downscaler/downtime "Mon-Fri 20:00-06:00 UTC": py-kube-downscaler never matches a span that ends before it starts, GoKubeDownscaler does; write what is meant as two, such as Mon-Fri 20:00-24:00 and 00:00-06:00 on its days`},
		{name: "from and to the same time", deployment: "uptime=Mon-Fri 20:00-20:00 Europe/London",
			want: `lost: downscaler/uptime "Mon-Fri 20:00-20:00 Europe/London": it ends when it starts, and neither py-kube-downscaler nor GoKubeDownscaler ever matches that; write never to keep it so, or Mon-Fri 00:00-24:00 if whole days are meant`},
		{name: "from midnight to midnight", deployment: "downtime=Sat-Sun 00:00-00:00 UTC",
			want: `lost: downscaler/downtime "Sat-Sun 00:00-00:00 UTC": it ends when it starts, and neither py-kube-downscaler nor GoKubeDownscaler ever matches that; write never to keep it so, or Sat-Sun 00:00-24:00 if whole days are meant`},
		{name: "to midnight", deployment: "uptime=Mon-Fri 20:00-00:00 UTC",
			want: `lost: downscaler/uptime "Mon-Fri 20:00-00:00 UTC": py-kube-downscaler never matches an end of 00:00; write 24:00`},
		{name: "no zone", deployment: "uptime=Mon-Fri 08:00-18:00",
			want: `lost: downscaler/uptime "Mon-Fri 08:00-18:00": without a time zone, the one of the controller counts ($TZ); write it`},
		{name: "no such zone", deployment: "uptime=Mon-Fri 08:00-18:00 Europe/Bielefeld",
			want: `lost: downscaler/uptime "Mon-Fri 08:00-18:00 Europe/Bielefeld": want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC`},
		{name: "two zones", deployment: "uptime=Mon-Fri 08:00-18:00 UTC,Sat-Sat 08:00-18:00 CET",
			want: `lost: downscaler/uptime "Sat-Sat 08:00-18:00 CET": a Deployment has one time zone, and there is "UTC" already`},
		{name: "two zones of two", deployment: "uptime=Mon-Fri 08:00-18:00 UTC; downtime=Sat-Sat 08:00-18:00 CET",
			want: "lost: downscaler/downtime is in CET and another in UTC; a Deployment has one time zone"},
		{name: "no day", deployment: "uptime=Mon-Fry 08:00-18:00 UTC",
			want: `lost: downscaler/uptime "Mon-Fry 08:00-18:00 UTC": "Fry" is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun`},
		{name: "no time", deployment: "uptime=Mon-Fri 08:60-25:00 UTC",
			want: `lost: downscaler/uptime "Mon-Fri 08:60-25:00 UTC": want times from 00:00 to 24:00`},
		{name: "nonsense", deployment: "uptime=", namespace: office,
			want: `lost: downscaler/uptime "": want always, never, or such as Mon-Fri 08:00-18:00 Europe/Berlin`},
		{name: "backwards", deployment: "downtime=2026-12-23T12:00:00+00:00-2026-12-23T12:00:00+00:00",
			want: `lost: downscaler/downtime "2026-12-23T12:00:00+00:00-2026-12-23T12:00:00+00:00": ends before it starts`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := testConverter(nighttest.Defaults(t), now)
			split := func(text string) map[string]string {
				return oldAnnotations(slices.DeleteFunc(strings.Split(text, "; "), func(s string) bool { return s == "" })...)
			}
			for name, value := range split(tc.flags) {
				c.flags[name] = value
			}
			c.namespaces["shop"] = split(tc.namespace)
			replicas := int32(3)
			if tc.replicas < 0 {
				replicas = 0
			}
			d := oldDeployment(replicas)
			d.Annotations = split(tc.deployment)
			if got := converted(t, c, d); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// sleepInfoOf reads the spec of a SleepInfo in YAML.
func sleepInfoOf(t rapid.TB, spec string) *sleepInfo {
	t.Helper()
	info := &sleepInfo{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hours"}}
	if err := yaml.Unmarshal([]byte(spec), &info.Spec); err != nil {
		t.Fatal(err)
	}
	return info
}

func TestConvertSleepInfo(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"weekdays: until Monday", `{weekdays: "1-5", sleepAt: "20:00", wakeUpAt: "08:00", timeZone: Europe/Rome}`,
			"expected=3 | window=20:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Rome"},
		{"weekdays by name", `{weekdays: "Mon-Fri", sleepAt: "20:00", wakeUpAt: "08:00", timeZone: Europe/Rome}`,
			"expected=3 | window=20:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Rome"},
		{"weekdays by name, in lower case", `{weekdays: "mon-fri", sleepAt: "20:00", wakeUpAt: "08:00", timeZone: Europe/Rome}`,
			"expected=3 | window=20:00-08:00, Sat-Sun 00:00-24:00 | timezone=Europe/Rome"},
		{"a list of names", `{weekdays: "SAT,sun", sleepAt: "00:00", wakeUpAt: "23:00"}`,
			"expected=3 | window=Sat-Sun 00:00-23:00 | timezone=UTC"},
		{"any day", `{weekdays: "?", sleepAt: "20:00", wakeUpAt: "08:00"}`,
			"expected=3 | window=20:00-08:00 | timezone=UTC"},
		{"weekdays in full", `{weekdays: "Monday-Friday", sleepAt: "20:00", wakeUpAt: "08:00"}`,
			`lost: weekdays "Monday-Friday": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"every day", `{weekdays: "*", sleepAt: "20:00", wakeUpAt: "08:00"}`,
			"expected=3 | window=20:00-08:00 | timezone=UTC"},
		{"within a day: never over the weekend", `{weekdays: "1-5", sleepAt: "12:00", wakeUpAt: "13:00"}`,
			"expected=3 | window=Mon-Fri 12:00-13:00 | timezone=UTC"},
		{"the weekend", `{weekdays: "0,6", sleepAt: "00:00", wakeUpAt: "23:00"}`,
			"expected=3 | window=Sat-Sun 00:00-23:00 | timezone=UTC"},
		{"Saturday to Sunday, Sunday to Saturday", `{weekdays: "Sat,Sun", sleepAt: "20:00", wakeUpAt: "08:00"}`,
			"expected=3 | window=Mon-Fri 00:00-24:00, 20:00-08:00 | timezone=UTC"},
		{"one day", `{weekdays: "3", sleepAt: "20:00", wakeUpAt: "08:00"}`,
			"expected=3 | window=Mon-Tue, Thu-Sun 00:00-24:00, 20:00-08:00 | timezone=UTC"},
		{"steps", `{weekdays: "1-5/2", sleepAt: "12:00", wakeUpAt: "13:00"}`,
			"expected=3 | window=Mon, Wed, Fri 12:00-13:00 | timezone=UTC"},
		{"hours", `{weekdays: "*", sleepAt: "8-10/2:30", wakeUpAt: "9,11:00"}`,
			"expected=3 | window=08:30-09:00, 10:30-11:00 | timezone=UTC"},
		{"never woken", `{weekdays: "1-5", sleepAt: "20:00"}`,
			"lost: without wakeUpAt it is never woken; a window has an end, so say when"},
		{"at the same time", `{weekdays: "1-5", sleepAt: "20:00", wakeUpAt: "*:00"}`,
			"lost: sleepAt and wakeUpAt are sometimes at the same minute"},
		{"a minute apart", `{weekdays: "1-5", sleepAt: "*:*/2", wakeUpAt: "*:1/2"}`,
			"lost: sleepAt and wakeUpAt are sometimes a minute apart, which kube-green may miss"},
		{"too often for a window", `{weekdays: "*", sleepAt: "*:*/4", wakeUpAt: "*:2/4"}`,
			`lost: schedule-night.svc/window "00:00-00:02, 00:04-00:06, 00:08-00:10, 00:12-00:14, 00:16-00:18, 00:20-00:22, 00:24-00:26, 00:28-00:"…: longer than 4096 bytes`},
		{"no such zone", `{weekdays: "*", sleepAt: "20:00", wakeUpAt: "08:00", timeZone: Local}`,
			`lost: timeZone "Local": want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC`},
		{"no such day", `{weekdays: "1-8", sleepAt: "20:00", wakeUpAt: "08:00"}`, `lost: weekdays "1-8": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"Sunday is 0", `{weekdays: "1-7", sleepAt: "20:00", wakeUpAt: "08:00"}`, `lost: weekdays "1-7": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"no days", `{sleepAt: "20:00", wakeUpAt: "08:00"}`, `lost: weekdays "": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"backwards", `{weekdays: "5-1", sleepAt: "20:00", wakeUpAt: "08:00"}`, `lost: weekdays "5-1": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"no step", `{weekdays: "*/0", sleepAt: "20:00", wakeUpAt: "08:00"}`, `lost: weekdays "*/0": want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2`},
		{"no hour", `{weekdays: "*", sleepAt: "24:00", wakeUpAt: "08:00"}`, `lost: sleepAt "24:00": want hours as cron has them, 0-23, such as 20, 8-18/2 or *`},
		{"no minute", `{weekdays: "*", sleepAt: "20:00", wakeUpAt: "8:TZ=0"}`, `lost: wakeUpAt "8:TZ=0": want minutes as cron has them, 0-59, such as 00, 0,30 or */15`},
		{"no time", `{weekdays: "*", sleepAt: "20", wakeUpAt: "08:00"}`, `lost: sleepAt "20": want HH:MM`},
		{"its own patch", `{weekdays: "*", sleepAt: "20:00", wakeUpAt: "08:00", suspendDeployments: false, patches: [{target: {group: apps, kind: Deployment}, patch: x}]}`,
			"lost: the SleepInfo patches Deployments in its own way"},
	} {
		c := testConverter(nighttest.Defaults(t), nighttest.Time(t, "2026-11-29T12:00:00Z"))
		c.sleepInfos = []*sleepInfo{sleepInfoOf(t, tc.spec)}
		if got := converted(t, c, oldDeployment(3)); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

func TestSleepInfoSelects(t *testing.T) {
	const web = "apiVersion: apps/v1, kind: Deployment, name: web"
	for spec, want := range map[string]bool{
		`{}`:                            true,
		`{suspendDeployments: true}`:    true,
		`{suspendDeployments: false}`:   false,
		`{excludeRef: [{` + web + `}]}`: false,
		`{excludeRef: [{apiVersion: apps/v1, kind: StatefulSet, name: web}]}`:      true,
		`{excludeRef: [{apiVersion: batch/v1, kind: Deployment, name: web}]}`:      true,
		`{excludeRef: [{matchLabels: {app: web}}]}`:                                false,
		`{excludeRef: [{matchLabels: {app: other, tier: front}}]}`:                 false,
		`{excludeRef: [{matchLabels: {app: other}}, {matchLabels: {none: ""}}]}`:   true,
		`{includeRef: [{` + web + `}]}`:                                            true,
		`{includeRef: [{` + web + `}, {matchLabels: {app: web}}]}`:                 true,
		`{includeRef: [{matchLabels: {app: web, tier: back}}]}`:                    false,
		`{includeRef: [{apiVersion: apps/v1, kind: Deployment, name: other}]}`:     false,
		`{includeRef: [{matchLabels: {app: web}}], excludeRef: [{` + web + `}]}`:   false,
		`{suspendDeployments: false, patches: [{target: {group: apps, kind: X}}]}`: false,
	} {
		if got := sleepInfoOf(t, spec).selects(oldDeployment(3)); got != want {
			t.Errorf("%s: %v", spec, got)
		}
	}
	other, owned := oldDeployment(3), oldDeployment(3)
	other.Namespace = "other"
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Web", Name: "w", Controller: ptr.To(true)}}
	for _, d := range []*appsv1.Deployment{other, owned} {
		if sleepInfoOf(t, "{}").selects(d) {
			t.Errorf("selects %v", d.ObjectMeta)
		}
	}
}

// TestConvertConflicts is about Deployments that more than one schedule claims.
func TestConvertConflicts(t *testing.T) {
	hours := sleepInfoOf(t, `{weekdays: "*", sleepAt: "20:00", wakeUpAt: "08:00"}`)
	on := oldDeployment(3, "downtime=always")
	on.Annotations[night.AnnotationOn] = "true"
	for _, tc := range []struct {
		d     *appsv1.Deployment
		infos []*sleepInfo
		want  string
	}{
		{oldDeployment(3, "downtime=always"), []*sleepInfo{hours}, "lost: SleepInfo hours selects it too; one schedule has to go"},
		{oldDeployment(3), []*sleepInfo{hours, hours}, "lost: more than one SleepInfo selects it; write the window that is meant"},
		{on, []*sleepInfo{hours}, "note: has schedule-night.svc/on already; left alone"},
		{workloadtest.Deployment(3), nil, ""},
	} {
		c := testConverter(nighttest.Defaults(t), nighttest.Time(t, "2026-11-29T12:00:00Z"))
		c.sleepInfos = tc.infos
		if got := converted(t, c, tc.d); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// TestConvertShop is the example of docs/migration.md.
func TestConvertShop(t *testing.T) {
	stdout, stderr, exit := runConvert(t, "", "-f", "testdata/shop.yaml")
	if exit != 1 {
		t.Errorf("exit %d", exit)
	}
	docs, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"shop.out": stdout, "shop.err": stderr} {
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
		for line := range strings.Lines(got) {
			if !strings.Contains(string(docs), line) {
				t.Errorf("docs/migration.md lacks %s", line)
			}
		}
	}
}

// TestConvertReports is about what people have reported of the old tools, and what becomes
// of it. UPDATE=1 writes anew what is printed.
func TestConvertReports(t *testing.T) {
	files, err := filepath.Glob("testdata/reports/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		c := testConverter(nighttest.Defaults(t), nighttest.Time(t, "2026-11-29T12:00:00Z"))
		c.reader().AddFiles([]string{file}, nil)
		var out, errOut strings.Builder
		if err := c.print(&out, &errOut); err != nil {
			fmt.Fprintln(&errOut, "error:", err)
		}
		got, golden := out.String()+errOut.String(), strings.TrimSuffix(file, ".yaml")+".out"
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

// words are what a shell makes of the script's calls of kubectl.
func words(t *testing.T, script string) (calls [][]string) {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-eu")
	sh.Stdin = strings.NewReader("kubectl() { printf '%s\\0' \"$@\"; printf '\\0'; }\n" + script)
	out, err := sh.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	for call := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00\x00"), "\x00\x00") {
		if call != "" {
			calls = append(calls, strings.Split(call, "\x00"))
		}
	}
	return calls
}

// TestConvertedSchedules runs the lines through a shell, and has what they say accepted
// as a schedule.
func TestConvertedSchedules(t *testing.T) {
	stdout, _, _ := runConvert(t, "", "-f", "testdata/shop.yaml")
	calls := words(t, stdout)
	if len(calls) != 3 {
		t.Fatalf("%d calls: %q", len(calls), calls)
	}
	asleep := 0
	for _, call := range calls {
		if len(call) < 6 || call[0] != "-n" || !slices.Equal(call[2:4], []string{"annotate", "deployment"}) {
			t.Fatalf("%q", call)
		}
		annotations := map[string]string{}
		for _, word := range call[5:] {
			switch name, value, ok := strings.Cut(word, "="); {
			case ok && strings.HasPrefix(name, night.Prefix):
				annotations[name] = value
			case strings.HasPrefix(word, downscalerPrefix) && strings.HasSuffix(word, "-"):
			default:
				t.Errorf("%q in %q", word, call)
			}
		}
		schedule, err := night.ParseSchedule(annotations, nighttest.Defaults(t))
		if err != nil || !schedule.On {
			t.Errorf("%q: %+v, error %v", call, schedule, err)
		}
		state, err := schedule.At(nighttest.Time(t, "2026-11-28T12:00:00Z"))
		if err != nil {
			t.Errorf("%q: %v", call, err)
		}
		if state.Asleep {
			asleep++
		}
	}
	if asleep == 0 {
		t.Error("none sleeps at the weekend")
	}
}

func TestShellQuote(t *testing.T) {
	list := []string{"", "a", "-n", "$(exit 1)", "`exit 1`", "a b", "'", "''", `"`, `\`, "a'b\"c\\d", "!x", "~", "*", "#", "a\nb", "\x1b[2J", "é", "a;b|c&d<e>f", "{a,b}", "=ls"}
	var script strings.Builder
	for _, word := range list {
		script.WriteString("kubectl x " + shellQuote(word) + "\n")
	}
	calls := words(t, "kubectl() { printf '%s|\\0' \"$@\"; printf '\\0'; }\n"+script.String())
	for i, word := range list {
		if want := []string{"x|", word + "|"}; i >= len(calls) || !slices.Equal(calls[i], want) {
			t.Fatalf("%q became %q", word, calls)
		}
	}
}

// TestConvertHostile: nothing that files say gets to a shell or to the terminal.
func TestConvertHostile(t *testing.T) {
	const evil = `x\n$(exit 1)\u001b[2J'\u202e`
	stdin := strings.ReplaceAll(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"EVIL","annotations":{"downscaler/downtime":"always"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generateName":"EVIL","namespace":"EVIL","annotations":{"downscaler/downtime":"always"}}}
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"EVIL","namespace":"EVIL","annotations":{"downscaler/EVIL":"always"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":"EVIL","annotations":{"downscaler/downtime":"always"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","annotations":{"downscaler/downtime":"EVIL","downscaler/EVIL":"EVIL"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"y","annotations":{"downscaler/downtime":"always","downscaler/EVIL":"EVIL"}}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"EVIL","annotations":{"downscaler/downtime":"always"}}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","annotations":{"downscaler/exclude-until":"EVIL","downscaler/EVIL":"EVIL"}}}
{"apiVersion":"kube-green.com/v1alpha1","kind":"SleepInfo","metadata":{"name":"EVIL","namespace":"z"}}
{"apiVersion":"kube-green.com/v1alpha1","kind":"SleepInfo","metadata":{"name":"z","namespace":"z"},"spec":{"weekdays":"EVIL","sleepAt":"EVIL","wakeUpAt":"EVIL","timeZone":"EVIL","patches":[{"target":{"group":"EVIL","kind":"EVIL"}}]}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"z","namespace":"z"}}`, "EVIL", evil)
	stdout, stderr, exit := runConvert(t, stdin, "-f", "-")
	if exit != 1 || strings.Count(stderr, "stdin, document ") != 4 {
		t.Errorf("exit %d\n%s", exit, stderr)
	}
	for _, r := range stdout + stderr {
		if r == '\x1b' || r == '\u202e' {
			t.Fatalf("%q in\n%q", r, stdout+stderr)
		}
	}
	for line := range strings.Lines(stdout) {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("a line that is no comment: %q", line)
		}
	}
}

// TestConvertErrors is about usage, documents that cannot be read, and what is asked for.
func TestConvertErrors(t *testing.T) {
	const sleeps = `{"apiVersion":"apps/v1","kind":"DeploymentList","items":[{"metadata":{"name":"web","namespace":"shop","labels":{"app":"web"},"annotations":{"downscaler/downtime":"always"}}}]}`
	for _, tc := range []struct {
		name, stdin, args string
		exit, lines       int
		want              string // in stderr
	}{
		{"all", sleeps, "-f -", 0, 1, "Deployments: 1 carried over, 0 in part, 0 not, 0 left out as before, 0 without a schedule\n"},
		{"another namespace", sleeps, "-f - -n other", 0, 0, "Deployments: 0 carried over"},
		{"all namespaces", sleeps, "-f - -n other -A", 0, 1, "Deployments: 1 carried over"},
		{"excluded", sleeps, "-f - --exclude-namespaces shop", 0, 0, "Deployments: 0 carried over"},
		{"other labels", sleeps, "-f - -l app=db", 0, 0, "Deployments: 0 carried over"},
		{"no document", "hello", "-f -", 1, 0, "error: not carried over: 0; invalid documents: 1\n"},
		{"no quotes", `{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"downscaler/exclude":true}}}`, "-f -", 1, 0, "put annotation values in quotes"},
		{"no SleepInfo", `{"apiVersion":"kube-green.com/v1alpha1","kind":"SleepInfo","spec":{"weekdays":1}}`, "-f -", 1, 0, "stdin, document 1: json: "},
		{"no Deployment", `{"apiVersion":"apps/v1","kind":"Deployment","spec":1}`, "-f -", 1, 0, "stdin, document 1: json: "},
		{"flags", "", "-f - --default-uptime 9-5 --default-downtime x --downtime-replicas -1 -l a=b=c", 2, 0, `--default-uptime "9-5": "9-5": want always`},
		{"an argument", "", "x", 2, 0, `convert takes no arguments, got ["x"]; name files with -f`},
		{"no cluster", "", "--kubeconfig /nonexistent", 1, 0, "reading the kubeconfig: "},
	} {
		stdout, stderr, exit := runConvert(t, tc.stdin, strings.Fields(tc.args)...)
		if lines := len(words(t, stdout)); exit != tc.exit || lines != tc.lines || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit %d, %d lines\n%s%s", tc.name, exit, lines, stdout, stderr)
		}
	}
}

// TestConvertCluster reads a cluster, page by page, with kube-green and without.
func TestConvertCluster(t *testing.T) {
	answers := map[string]string{
		"/api/v1/namespaces":                                  `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"shop","annotations":{"downscaler/downtime":"always"}}}]}`,
		"/api/v1/namespaces/shop":                             `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","annotations":{"downscaler/downtime":"always"}}}`,
		"/apis/apps/v1/deployments":                           `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"web","namespace":"shop"}},{"metadata":{"name":"lab","namespace":"lab"}}]}`,
		"/apis/apps/v1/namespaces/shop/deployments":           `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{"name":"web","namespace":"shop"}}]}`,
		"/apis/kube-green.com/v1alpha1/sleepinfos":            `{"metadata":{"continue":"2"},"items":[{"metadata":{"name":"hours","namespace":"lab"},"spec":{"weekdays":"*","sleepAt":"20:00","wakeUpAt":"08:00"}}]}`,
		"/apis/kube-green.com/v1alpha1/sleepinfos?continue=2": `{"metadata":{},"items":[{"metadata":{"name":"more","namespace":"other"}}]}`,
	}
	forbidden := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if next := r.URL.Query().Get("continue"); next != "" {
			path += "?continue=" + next
		}
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, path)
		}
		w.Header().Set("Content-Type", "application/json")
		switch answer, ok := answers[path]; {
		case forbidden[path]:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not for you","code":403}`)
		case ok:
			fmt.Fprint(w, answer)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kube config")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "a", "clusters": [{"name": "c", "cluster": {"server": %q}}],
"contexts": [{"name": "a", "context": {"cluster": "c", "namespace": "shop"}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	const serves = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kube-green.com/v1alpha1","resources":[{"name":"%s","kind":"SleepInfo","namespaced":true,"verbs":["list"]}]}`
	const discovery, sleepInfos = "/apis/kube-green.com/v1alpha1", "/apis/kube-green.com/v1alpha1/sleepinfos"
	for _, tc := range []struct {
		name, args, forbidden string
		discovery             string // what the API server has in the group of kube-green
		exit                  int
		want                  string // names of the Deployments of the lines
		stderr                string
	}{
		{name: "the context's namespace", want: "web"},
		{name: "all", args: "-A", want: "lab web"},
		{name: "no Namespaces", args: "-A", forbidden: "/api/v1/namespaces", exit: 1, want: "lab", stderr: "listing Namespaces: not for you"},
		{name: "no Namespace", forbidden: "/api/v1/namespaces/shop", exit: 1, stderr: "reading the Namespace: not for you"},
		{name: "no SleepInfos", args: "-A", forbidden: sleepInfos, discovery: fmt.Sprintf(serves, "sleepinfos"), exit: 1, want: "web", stderr: "listing SleepInfos: not for you"},
		{name: "no SleepInfos, nor knowing of them", args: "-A", forbidden: sleepInfos + " " + discovery, exit: 1, want: "web", stderr: "listing SleepInfos: not for you"},
		{name: "a tenant where there is no kube-green", args: "-A", forbidden: sleepInfos, want: "web", stderr: "Deployments: 1 carried over, "},
		{name: "the same with something else in the group", args: "-A", forbidden: sleepInfos, discovery: fmt.Sprintf(serves, "others"), want: "web"},
		{name: "no Deployments", args: "-A", forbidden: "/apis/apps/v1/deployments", exit: 1, stderr: "listing Deployments: not for you"},
	} {
		clear(forbidden)
		for path := range strings.FieldsSeq(tc.forbidden) {
			forbidden[path] = true
		}
		delete(answers, discovery)
		if tc.discovery != "" {
			answers[discovery] = tc.discovery
		}
		args := append([]string{"--kubeconfig", kubeconfig, "--context", "a"}, strings.Fields(tc.args)...)
		stdout, stderr, exit := runConvert(t, "", args...)
		var names []string
		for _, call := range words(t, stdout) {
			if !slices.Equal(call[:5], []string{"--kubeconfig", kubeconfig, "--context", "a", "-n"}) {
				t.Fatalf("%q", call)
			}
			names = append(names, call[8])
		}
		if got := strings.Join(names, " "); got != tc.want || exit != tc.exit || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit %d, %q\n%s%s", tc.name, exit, got, stdout, stderr)
		}
		if tc.exit == 1 && !strings.Contains(stderr, "not for you") || tc.exit == 1 && tc.want != "" && !strings.HasSuffix(stderr, "; not allowed to read: 1\n") {
			t.Errorf("%s: what is forbidden is not said and counted\n%s", tc.name, stderr)
		}
	}
}

// TestConvertNamespaceForbidden: what the Namespace says counts, so a line without it would be a guess.
func TestConvertNamespaceForbidden(t *testing.T) {
	c := testConverter(nighttest.Defaults(t), nighttest.Time(t, "2026-11-29T12:00:00Z"))
	c.namespacesUnknown = true
	for annotation, want := range map[string]string{
		"downtime=always": "lost: the Namespace cannot be read, and what it says counts, too",
		"exclude=true":    `note: left out: downscaler/exclude "true"`,
	} {
		if got := converted(t, c, oldDeployment(3, annotation)); got != want {
			t.Errorf("%s: got %q, want %q", annotation, got, want)
		}
	}
}

// TestConvertRemoves: a line takes off what either tool reads, and leaves the rest alone.
func TestConvertRemoves(t *testing.T) {
	stdout, _, exit := runConvert(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","annotations":{"downscaler/downtime":"always","downscaler/grace-period":"1h","downscaler/mine":"x"}},"spec":{"replicas":2}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","annotations":{"downscaler/downscale-replicas":"1","downscaler/mine":"x"}}}`, "-f", "-")
	calls := words(t, stdout)
	if len(calls) != 1 || exit != 1 {
		t.Fatalf("exit %d\n%s", exit, stdout)
	}
	if got := calls[0][len(calls[0])-2:]; !slices.Equal(got, []string{"downscaler/downtime-", "downscaler/grace-period-"}) || strings.Contains(strings.Join(calls[0], " "), "mine") {
		t.Errorf("%q", calls[0])
	}
	if want := "# when nothing needs it any more: kubectl annotate namespace default downscaler/downscale-replicas-\n"; !strings.HasSuffix(stdout, want) {
		t.Errorf("no %q in\n%s", want, stdout)
	}
}

// TestConvertGenerateName: kubectl cannot annotate what gets its name when it is created.
func TestConvertGenerateName(t *testing.T) {
	stdout, stderr, exit := runConvert(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generateName":"job-","namespace":"shop","annotations":{"downscaler/downtime":"Sat-Sun 00:00-24:00 UTC"}},"spec":{"replicas":2}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"downscaler/downtime":"always"}}}
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generateName":"off-","annotations":{"downscaler/exclude":"true"}}}`, "-f", "-")
	want := `# default/off-…: downscaler/exclude
#   left out: downscaler/exclude "true"
# shop/job-…: downscaler/downtime "Sat-Sun 00:00-24:00 UTC"
#   NOT CARRIED OVER: it has no name that kubectl could annotate (generateName); put into its manifest schedule-night.svc/on: "true", schedule-night.svc/expected: "2", schedule-night.svc/window: "Sat-Sun 00:00-24:00", schedule-night.svc/timezone: "UTC", schedule-night.svc/daytime: "wake-only"
`
	if stdout != want || exit != 1 || !strings.Contains(stderr, "0 carried over, 0 in part, 1 not, 1 left out as before") || !strings.Contains(stderr, `stdin, document 2: Deployment "default"/"": a lowercase RFC 1123 subdomain`) {
		t.Errorf("exit %d\n%s%s", exit, stdout, stderr)
	}
}

// TestConvertNotes: what looks like an annotation of ours and has no effect is told.
func TestConvertNotes(t *testing.T) {
	_, stderr, exit := runConvert(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","annotations":{"schedule-night.svc/timeZone":"UTC","downscaler/downtime":"always"}},"spec":{"replicas":3}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":{"schedule-night.svc/on":"true"}}}
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop","annotations":{"schedule-night.svc/on":"true"}}}
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"kube-system","annotations":{"schedule-night.svc/on":"true"}}}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","annotations":{"schedule-night.svc/on":"true"}}}`, "-f", "-")
	want := `stdin, document 1: shop/web: schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant
stdin, document 2: Namespace shop: schedule-night.svc/on has no effect on a Namespace of v1; only Deployments of apps/v1 are scaled
stdin, document 3: StatefulSet shop/db: schedule-night.svc/on has no effect on a StatefulSet of apps/v1; only Deployments of apps/v1 are scaled
Deployments: 1 carried over, 0 in part, 0 not, 0 left out as before, 0 without a schedule
`
	if stderr != want || exit != 0 {
		t.Errorf("exit %d, got\n%s\nwant\n%s", exit, stderr, want)
	}
}

// TestConvertOddKinds: what the old tools scale and this does not is named.
func TestConvertOddKinds(t *testing.T) {
	object := func(version, kind, annotation string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x","namespace":"shop","annotations":{%q:"true"}}}`, version, kind, annotation) + "\n"
	}
	stdout, stderr, exit := runConvert(t, object("extensions/v1beta1", "Deployment", "downscaler/downtime")+object("apps/v1", "StatefulSet", "downscaler/downtime")+
		object("autoscaling/v2", "HorizontalPodAutoscaler", "downscaler/downtime")+object("apps/v1", "DaemonSet", "other/downtime")+object("v1", "Service", "downscaler/exclude")+
		`{"apiVersion":"v1","kind":"List","items":[`+object("argoproj.io/v1alpha1", "Rollout", "downscaler/downtime")+`]}`+`{"apiVersion":"v1","kind":"Service","metadata":3}`, "-f", "-")
	want := `# Deployment shop/x of extensions/v1beta1: NOT CARRIED OVER: only Deployments of apps/v1 are scaled here
# HorizontalPodAutoscaler shop/x: NOT CARRIED OVER: only Deployments are scaled here
# Rollout shop/x: NOT CARRIED OVER: only Deployments are scaled here
# StatefulSet shop/x: NOT CARRIED OVER: only Deployments are scaled here
`
	if stdout != want || exit != 1 || !strings.HasSuffix(stderr, "Of other kinds, with annotations of the old tools: 4\nerror: not carried over: 4; invalid documents: 0\n") {
		t.Errorf("exit %d\n%s%s", exit, stdout, stderr)
	}
	stdout, _, exit = runConvert(t, object("apps/v1", "StatefulSet", "downscaler/downtime"), "-f", "-", "-n", "other")
	if stdout != "" || exit != 0 {
		t.Errorf("another namespace: exit %d\n%s", exit, stdout)
	}
}
