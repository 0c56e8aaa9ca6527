package night_test

import (
	"cmp"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
)

func TestScheduleCases(t *testing.T) {
	rows := nighttest.ReadCases(t, "testdata/cases/schedule.tsv", "SCHEDULE_CASES", "window\ttimezone\texcept\tawake-until\tasleep-until\tnow\tasleep\tnext")
	if len(rows) < 400 {
		t.Errorf("%d rows, want at least 400", len(rows))
	}
	for _, row := range rows {
		checkCase(t, row, night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationExcept, night.AnnotationAwakeUntil, night.AnnotationAsleepUntil)
	}
}

// spans tells windows with an item from a weekday or a date to another, which the
// language does not have.
var spans = regexp.MustCompile(`[0-9]{2}:[0-9]{2} *- *([A-Za-z]{3}|[0-9]{4}-[0-9]{2}-[0-9]{2}) *[0-9]{2}:`)

// TestDelayCases: what a wake delay does for who is recorded as asleep.
func TestDelayCases(t *testing.T) {
	rows := nighttest.ReadCases(t, "testdata/cases/spans.tsv", "SPAN_CASES", "window\ttimezone\texcept\tawake-until\tasleep-until\twake-delay\tnow\tasleep\tnext")
	n := 0
	for _, row := range rows {
		if spans.MatchString(row[0]) {
			continue
		}
		n++
		checkCase(t, row, night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationExcept, night.AnnotationAwakeUntil, night.AnnotationAsleepUntil, night.AnnotationWakeDelay)
	}
	if t.Logf("%d of %d rows have no spans", n, len(rows)); n < 39 {
		t.Errorf("%d rows, want at least 39", n)
	}
}

// checkCase reads a row: the annotations of these names, the instant, and what is so then.
func checkCase(t *testing.T, row []string, names ...string) {
	t.Helper()
	annotations := map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3"}
	for i, name := range names {
		if row[i] != "" {
			annotations[name] = row[i]
		}
	}
	s, err := night.ParseSchedule(annotations, nighttest.Defaults(t))
	if err != nil {
		t.Errorf("row %q: %v", row, err)
		return
	}
	answer := row[len(names):]
	state, err := s.At(nighttest.Time(t, answer[0]))
	if err != nil {
		t.Errorf("row %q: %v", row, err)
		return
	}
	next := "-"
	if !state.Next.IsZero() {
		next = state.Next.UTC().Format(time.RFC3339)
	}
	if asleep := strconv.FormatBool(state.Asleep); asleep != answer[1] || next != answer[2] {
		t.Errorf("row %q: got asleep=%s next=%s", row, asleep, next)
	}
}

func TestInvalidCases(t *testing.T) {
	rows := nighttest.ReadCases(t, "testdata/cases/invalid.tsv", "INVALID_CASES", "annotation\tvalue")
	for _, row := range rows {
		annotations := map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3"}
		annotations[row[0]] = row[1]
		_, err := night.ParseSchedule(annotations, nighttest.Defaults(t))
		if err == nil {
			t.Errorf("row %q was accepted", row)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, row[0]+" "+night.Quote(row[1])+": ") {
			t.Errorf("row %q: the error does not name the annotation and its value: %s", row, text)
		}
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, tc := range []struct {
		annotation, value, want string
	}{
		{night.AnnotationWindow, "Mon-Fry 21:00-07:00", `schedule-night.svc/window "Mon-Fry 21:00-07:00": "Fry" is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun or a date such as 2026-12-24`},
		{night.AnnotationWindow, "", `schedule-night.svc/window "": a day is missing at the end; use Mon, Tue, Wed, Thu, Fri, Sat, Sun or a date`},
		{night.AnnotationWindow, "21:00", `schedule-night.svc/window "21:00": the end follows "21:00"; a window has a start and an end with "-" between, e.g. 21:00-07:00`},
		{night.AnnotationWindow, "21:00-21:00", `schedule-night.svc/window "21:00-21:00": "21:00-21:00" starts and ends at the same time; a whole day is 00:00-24:00`},
		{night.AnnotationWindow, "24:00-07:00", `schedule-night.svc/window "24:00-07:00": "24:00" is not a start; use HH:MM, 00:00 to 23:59`},
		{night.AnnotationWindow, "21:00-24:30", `schedule-night.svc/window "21:00-24:30": "24:30" is not an end; use HH:MM, 00:00 to 24:00`},
		{night.AnnotationWindow, "9pm-7am", `schedule-night.svc/window "9pm-7am": "9pm" is not a start; use HH:MM, 00:00 to 23:59`},
		{night.AnnotationWindow, "21:00\u201307:00", `schedule-night.svc/window "21:00–07:00": "–07:00" follows "21:00"; a window has a start and an end with "-" between, e.g. 21:00-07:00`},
		{night.AnnotationWindow, "21:00-07:00 Europe/Berlin", `schedule-night.svc/window "21:00-07:00 Europe/Berlin": "Europe/Berlin" after "21:00-07:00" is not expected; put "," between items (a time zone goes into schedule-night.svc/timezone)`},
		{night.AnnotationWindow, "Sat,Sun", `schedule-night.svc/window "Sat,Sun": "Sat,Sun" names days without times; end with times, e.g. Sat, Sun 00:00-24:00`},
		{night.AnnotationWindow, "2026-12-31/2026-12-24 00:00-24:00", `schedule-night.svc/window "2026-12-31/2026-12-24 00:00-24:00": 2026-12-31/2026-12-24 runs backwards; put the earlier date first`},
		{night.AnnotationWindow, " 21:00-07:00", `schedule-night.svc/window " 21:00-07:00": white space at the start or the end; it may only stand between tokens`},
		{night.AnnotationExcept, "2026-02-30", `schedule-night.svc/except "2026-02-30": "2026-02-30" is not a date; use YYYY-MM-DD, e.g. 2026-12-24`},
		{night.AnnotationExcept, "Mon Tue", `schedule-night.svc/except "Mon Tue": "Tue" after "Mon" is not expected; put "," between days`},
		{night.AnnotationTimezone, "CEST", `schedule-night.svc/timezone "CEST": want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC`},
		{night.AnnotationTimezone, "Europe//Berlin", `schedule-night.svc/timezone "Europe//Berlin": want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC`},
		{night.AnnotationExpected, "00000000003", `schedule-night.svc/expected "00000000003": want replicas as decimal digits alone, 0 to 2147483647`},
		{night.AnnotationExpected, "+3", `schedule-night.svc/expected "+3": want replicas as decimal digits alone, 0 to 2147483647`},
		{night.AnnotationOn, "yes", `schedule-night.svc/on "yes": want true or false`},
		{night.AnnotationAwakeUntil, "2026-11-30T2:00:00Z", `schedule-night.svc/awake-until "2026-11-30T2:00:00Z": want an RFC 3339 time with its offset, e.g. 2026-11-30T02:00:00+01:00 or 2026-11-30T01:00:00Z`},
		{night.AnnotationDaytime, "Enforce", `schedule-night.svc/daytime "Enforce": want enforce or wake-only`},
		{night.AnnotationWakeDelay, "-5m", `schedule-night.svc/wake-delay "-5m": want a duration from 0s to 24h, e.g. 90s, 10m or 1h30m`},
		{night.AnnotationWakeDelay, "25h", `schedule-night.svc/wake-delay "25h": want a duration from 0s to 24h, e.g. 90s, 10m or 1h30m`},
		{night.AnnotationWindow, strings.Repeat("x", 120), `schedule-night.svc/window "` + strings.Repeat("x", 100) + `"…: "` + strings.Repeat("x", 100) + `"… is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun or a date such as 2026-12-24`},
		{night.AnnotationOn, strings.Repeat("x", 5000), `schedule-night.svc/on "` + strings.Repeat("x", 100) + `"…: want true or false`},
		{night.AnnotationWakeDelay, strings.Repeat("0s", 2049), `schedule-night.svc/wake-delay "` + strings.Repeat("0s", 50) + `"…: longer than 4096 bytes`},
		{night.AnnotationExcept, strings.Repeat("Mon,", 1024) + "Mon", `schedule-night.svc/except "` + strings.Repeat("Mon,", 25) + `"…: longer than 4096 bytes`},
	} {
		annotations := map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3"}
		annotations[tc.annotation] = tc.value
		_, err := night.ParseSchedule(annotations, nighttest.Defaults(t))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s %q:\n got %v\nwant %s", tc.annotation, tc.value, err, tc.want)
		}
	}
	_, err := night.ParseSchedule(map[string]string{night.AnnotationOn: "true"}, nighttest.Defaults(t))
	if want := `schedule-night.svc/expected is missing: set it to the replicas wanted in the day, e.g. "3"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestScheduleOptIn(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "T": true, "1": true, "false": false, "0": false} {
		// Off means off: nothing else is looked at, so nothing can be wrong.
		s, err := night.ParseSchedule(map[string]string{night.AnnotationOn: value, night.AnnotationExpected: "3", night.AnnotationDaytime: "wake-only", night.AnnotationWakeDelay: "90s"}, nighttest.Defaults(t))
		if err != nil || s.On != want {
			t.Errorf("on=%s: On=%v, error %v", value, s.On, err)
		}
	}
	s, err := night.ParseSchedule(map[string]string{night.AnnotationOn: "false", night.AnnotationExpected: "x"}, nighttest.Defaults(t))
	if err != nil || s.On {
		t.Errorf("off with a bad count: On=%v, error %v", s.On, err)
	}
	if s, err = night.ParseSchedule(map[string]string{night.AnnotationExpected: "x"}, nighttest.Defaults(t)); err != nil || s.On {
		t.Errorf("never opted in: On=%v, error %v", s.On, err)
	}
}

func TestWindowString(t *testing.T) {
	for text, want := range map[string]string{
		"21:00-07:00":         "21:00-07:00",
		"21:00 - 07:00":       "21:00-07:00",
		"Mon-Sun 21:00-07:00": "21:00-07:00",
		"Mon-Fri 21:00-07:00,Sat,sun 00:00-24:00":  "Mon-Fri 21:00-07:00, Sat-Sun 00:00-24:00",
		"Sat - MON\n20:00-08:00":                   "Mon, Sat-Sun 20:00-08:00",
		"Mon,Wed,Fri 18:15-06:45":                  "Mon, Wed, Fri 18:15-06:45",
		"Sun-Sun 1:00-2:00":                        "",
		"2026-12-24 / 2026-12-26, Mon 00:00-24:00": "Mon, 2026-12-24/2026-12-26 00:00-24:00",
		"Mon, 21:00-07:00":                         "Mon 21:00-07:00",
		"Mon21:00-07:00":                           "Mon 21:00-07:00",
		"00:00-01:00,02:00-03:00,04:00-05:00,06:00-07:00,08:00-09:00,10:00-11:00": "00:00-01:00, 02:00-03:00, 04:00-05:00, 06:00-07:00, 08:00-09:00, 10:00-11:00",
	} {
		w, err := night.ParseWindow(text)
		if got := w.String(); err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: got %q and error %v, want %q", text, got, err, want)
		}
	}
}

// TestScheduleAt names the instants that a table of random rows may miss.
func TestScheduleAt(t *testing.T) {
	for _, tc := range []struct {
		name        string
		annotations string // window|timezone|except|awake-until|asleep-until|wake-delay
		now         string
		want        string // asleep or awake, then the next boundary in UTC
	}{
		{"the night of Friday lasts into Saturday", "Mon-Fri 21:00-07:00", "2026-11-28T03:00:00Z", "asleep 2026-11-28T07:00:00Z"},
		{"the night of Sunday is not in Mon-Fri", "Mon-Fri 21:00-07:00", "2026-11-30T03:00:00Z", "awake 2026-11-30T21:00:00Z"},
		{"touching items have no boundary between", "Fri 21:00-24:00, Sat-Sun 00:00-24:00, Mon 00:00-07:00", "2026-11-27T22:00:00Z", "asleep 2026-11-30T07:00:00Z"},
		{"a start that clocks skip is the end of the gap", "02:30-05:00|Europe/Berlin", "2026-03-29T00:59:59Z", "awake 2026-03-29T01:00:00Z"},
		{"a start that comes twice is the earlier", "02:30-05:00|Europe/Berlin", "2026-10-25T00:29:59Z", "awake 2026-10-25T00:30:00Z"},
		{"the longer night is slept through", "21:00-07:00|Europe/Berlin", "2026-10-24T19:00:00Z", "asleep 2026-10-25T06:00:00Z"},
		{"the shorter night too", "21:00-07:00|Europe/Berlin", "2026-03-28T20:00:00Z", "asleep 2026-03-29T05:00:00Z"},
		{"a span inside a gap does not happen", "02:10-02:50|Europe/Berlin", "2026-03-29T00:00:00Z", "awake 2026-03-30T00:10:00Z"},
		{"a date that a zone skipped", "21:00-07:00|Pacific/Apia", "2011-12-30T09:59:59Z", "asleep 2011-12-30T17:00:00Z"},
		{"always", "00:00-24:00", "2026-11-28T03:00:00Z", "asleep -"},
		{"never again", "2026-11-01 00:00-24:00", "2026-11-28T03:00:00Z", "awake -"},
		{"a year ahead", "2027-11-01 00:00-24:00", "2026-11-01T00:00:00Z", "awake 2027-11-01T00:00:00Z"},
		{"more than 366 days ahead", "2027-11-01 00:00-24:00", "2026-10-30T00:00:00Z", "awake -"},
		{"exactly 366 days ahead", "2027-11-01 00:00-24:00", "2026-10-31T00:00:00Z", "awake 2027-11-01T00:00:00Z"},
		{"kept up until two, then it is night", "21:00-07:00|||2026-11-28T02:00:00Z", "2026-11-27T23:00:00Z", "awake 2026-11-28T02:00:00Z"},
		{"kept up until the day", "21:00-07:00|||2026-11-28T12:00:00Z", "2026-11-27T23:00:00Z", "awake 2026-11-28T21:00:00Z"},
		{"sent to sleep until the night", "21:00-07:00||||2026-11-28T22:00:00Z", "2026-11-28T12:00:00Z", "asleep 2026-11-29T07:00:00Z"},
		{"sent to sleep until the day", "21:00-07:00||||2026-11-28T13:00:00Z", "2026-11-28T12:00:00Z", "asleep 2026-11-28T13:00:00Z"},
		{"an override in the past has no effect", "21:00-07:00|||2026-11-28T12:00:00Z|2026-11-28T11:00:00Z", "2026-11-28T12:00:00Z", "awake 2026-11-28T21:00:00Z"},
		{"an override beyond the horizon", "21:00-07:00||||2030-01-01T00:00:00Z", "2026-11-28T12:00:00Z", "asleep -"},
		{"a wake delay", "21:00-07:00|||||30m", "2026-11-28T07:00:00Z", "asleep 2026-11-28T07:30:00Z"},
		{"a wake delay over the next start", "21:00-07:00, 07:10-08:00|||||30m", "2026-11-28T07:05:00Z", "asleep 2026-11-28T08:30:00Z"},
		{"a wake delay of a night that was not slept to its end", "21:00-07:00|||2026-11-28T07:00:00Z||30m", "2026-11-28T07:00:00Z", "awake 2026-11-28T21:00:00Z"},
		{"and of one that was", "21:00-07:00|||2026-11-28T06:59:59Z||30m", "2026-11-28T06:59:59Z", "asleep 2026-11-28T07:30:00Z"},
		{"a wake delay of a day", "Mon 21:00-07:00|||||24h", "2026-12-02T06:59:00Z", "asleep 2026-12-02T07:00:00Z"},
		{"except names the day on which a night starts", "21:00-07:00||2026-11-27", "2026-11-28T03:00:00Z", "awake 2026-11-28T21:00:00Z"},
	} {
		fields := append(strings.Split(tc.annotations, "|"), make([]string, 5)...)
		annotations := map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3"}
		for i, name := range []string{night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationExcept, night.AnnotationAwakeUntil, night.AnnotationAsleepUntil, night.AnnotationWakeDelay} {
			if fields[i] != "" {
				annotations[name] = fields[i]
			}
		}
		s, err := night.ParseSchedule(annotations, nighttest.Defaults(t))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		state, err := s.At(nighttest.Time(t, tc.now))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		got := map[bool]string{true: "asleep ", false: "awake "}[state.Asleep]
		if state.Next.IsZero() {
			got += "-"
		} else {
			got += state.Next.UTC().Format(time.RFC3339)
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestScheduleBothOverrides(t *testing.T) {
	s := nighttest.Defaults(t)
	s.AwakeUntil, s.AsleepUntil = nighttest.Time(t, "2026-11-28T12:00:00Z"), nighttest.Time(t, "2026-11-28T13:00:00Z")
	state, err := s.At(nighttest.Time(t, "2026-11-28T11:59:59Z"))
	if err == nil || !state.Next.Equal(s.AwakeUntil) {
		t.Errorf("both ahead: got %+v, error %v", state, err)
	}
	state, err = s.At(s.AwakeUntil)
	if err != nil || !state.Asleep || !state.Override || !state.Next.Equal(s.AsleepUntil) {
		t.Errorf("one ahead: got %+v, error %v", state, err)
	}
	s.AwakeUntil, s.AsleepUntil = nighttest.Time(t, "9999-12-31T23:59:59-23:59"), nighttest.Time(t, "9999-12-31T23:59:59-23:58")
	state, err = s.At(nighttest.Time(t, "2026-11-28T11:59:59Z"))
	if err == nil || !state.Next.IsZero() {
		t.Errorf("both for ever: got %+v, error %v; want no boundary within 366 days", state, err)
	}
}

// FuzzParse holds the parsers to three promises: no panic, no schedule from
// garbage (what was accepted prints as something that means the same), and an
// error that can be shown.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"21:00-07:00", "Mon-Fri 21:00-07:00, Sat,Sun 00:00-24:00", "2026-12-24/2026-12-26 00:00-24:00", "Sat - Mon\t20:00 - 08:00",
		"Mon-Fry 21:00-07:00", "21:00–07:00", "24:00-07:00", ",", "Mon,", "2026-02-30", "0:0-0:0", "\x00", "9999-12-31/0000-01-01", "Mon21:00-22:00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := night.ParseWindow(text)
		if err == nil {
			again, err := night.ParseWindow(w.String())
			if err != nil || !reflect.DeepEqual(again, w) {
				t.Errorf("%q prints as %q, which reads as %+v, error %v", text, w.String(), again, err)
			}
			for i := range w.Len() {
				if it := w.Item(i); it.Start < 0 || it.Start >= night.MinutesPerDay || it.End < 0 || it.End > night.MinutesPerDay || it.Start == it.End || it.Days.Empty() {
					t.Errorf("%q yields the item %+v", text, it)
				}
			}
			s := night.Schedule{Window: w, Location: time.UTC}
			if _, err := s.At(time.Unix(1796000000, 0)); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		} else if n := len(err.Error()); n > 8*night.MaxQuote {
			t.Errorf("%q: an error of %d bytes", text, n)
		}
		if days, err := night.ParseDays(text); err == nil {
			again, err := night.ParseDays(days.String())
			if err != nil || !reflect.DeepEqual(again, days) || days.Empty() {
				t.Errorf("%q prints as %q, which reads as %+v, error %v", text, days.String(), again, err)
			}
		}
		if loc, err := night.ParseLocation(text); err == nil && cmp.Or(loc.String(), "Local") == "Local" {
			t.Errorf("%q is the zone %v", text, loc)
		}
	})
}

func benchmarkSchedule(b *testing.B, annotations map[string]string) {
	annotations[night.AnnotationOn], annotations[night.AnnotationExpected] = "true", "3"
	defaults, now := nighttest.Defaults(b), nighttest.Time(b, "2026-11-28T12:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		s, err := night.ParseSchedule(annotations, defaults)
		if err != nil {
			b.Fatal(err)
		}
		if state, err := s.At(now); err != nil || state.Next.IsZero() {
			b.Fatal(state, err)
		}
	}
}

func BenchmarkScheduleDaily(b *testing.B) {
	benchmarkSchedule(b, map[string]string{night.AnnotationWindow: "21:00-07:00", night.AnnotationTimezone: "Europe/Berlin"})
}

func BenchmarkScheduleWeek(b *testing.B) {
	benchmarkSchedule(b, map[string]string{
		night.AnnotationWindow:   "Mon-Thu 21:00-07:00, Fri 21:00-24:00, Sat,Sun 00:00-24:00, Mon 00:00-07:00, 2026-12-24/2026-12-26 00:00-24:00, 2027-01-01 00:00-24:00",
		night.AnnotationTimezone: "Europe/Berlin", night.AnnotationExcept: "2026-12-31, 2027-02-01/2027-02-05", night.AnnotationNightReplicas: "1", night.AnnotationWakeDelay: "10m",
	})
}
