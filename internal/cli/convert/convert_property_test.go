package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
)

// shownTwice tells whether the clock shows t's time twice, because it goes back. A
// schedule of instants and one that looks at the clock may differ in these hours.
func shownTwice(t time.Time, loc *time.Location) bool {
	t = t.In(loc)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		if t.Sub(start) < time.Duration(before-offset)*time.Second {
			return true
		}
	}
	if end.IsZero() {
		return false
	}
	_, after := end.Zone()
	return end.Sub(t) <= time.Duration(offset-after)*time.Second
}

// oldSpan is a weekly part of a value of kube-downscaler; oldRange is an absolute one.
type oldSpan struct{ firstDay, lastDay, from, to int }

type oldRange struct{ from, to time.Time }

// oldSpec models a value of kube-downscaler: it looks at the clock on the wall.
type oldSpec struct {
	text   string
	spans  []oldSpan
	ranges []oldRange
}

func (s *oldSpec) matches(at time.Time, loc *time.Location) bool {
	switch s.text {
	case "always":
		return true
	case "never", "false":
		return false
	}
	local := at.In(loc)
	day := (int(local.Weekday()) + 6) % 7 // Monday is 0
	minute := local.Hour()*60 + local.Minute()
	for _, p := range s.spans {
		inDays := p.firstDay <= day && day <= p.lastDay
		if p.firstDay > p.lastDay {
			inDays = day >= p.firstDay || day <= p.lastDay
		}
		if inDays && p.from <= minute && minute < p.to {
			return true
		}
	}
	for _, r := range s.ranges {
		if !at.Before(r.from) && at.Before(r.to) {
			return true
		}
	}
	return false
}

func drawOldSpec(t *rapid.T, zone string, plain []string, ranges func() []oldRange) oldSpec {
	if nighttest.Uniform(t, 4) == 0 {
		return oldSpec{text: nighttest.Among(t, plain...)}
	}
	var s oldSpec
	var parts []string
	for range 1 + nighttest.Uniform(t, 3) {
		p := oldSpan{firstDay: nighttest.Uniform(t, 7), lastDay: nighttest.Uniform(t, 7), from: 15 * nighttest.Uniform(t, 95)}
		p.to = p.from + 1 + nighttest.Uniform(t, 24*60-p.from)
		if nighttest.Uniform(t, 3) == 0 {
			p.firstDay, p.lastDay = 0, 4
		}
		s.spans = append(s.spans, p)
		parts = append(parts, fmt.Sprintf("%s-%s %s-%s %s", night.DayNames[p.firstDay], night.DayNames[p.lastDay], nighttest.ClockText(p.from), nighttest.ClockText(p.to), zone))
	}
	if ranges != nil {
		for _, r := range ranges() {
			s.ranges = append(s.ranges, r)
			parts = append(parts, r.from.Format("2006-01-02T15:04:05-07:00")+"-"+r.to.Format("2006-01-02T15:04:05-07:00"))
		}
	}
	s.text = strings.Join(parts, nighttest.Among(t, ",", ", "))
	return s
}

var oldZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "Australia/Lord_Howe", "America/Santiago"}

// TestPropertyConvertDownscaler: what is printed sleeps when kube-downscaler lets sleep.
func TestPropertyConvertDownscaler(t *testing.T) {
	defaults := nighttest.Defaults(t)
	rapid.Check(t, func(t *rapid.T) {
		zone := nighttest.Among(t, oldZones...)
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		now := nighttest.UniformTime(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)).Truncate(time.Minute)
		minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
		past := func() oldRange {
			to := now.Add(-minutes(nighttest.Uniform(t, 10000)))
			return oldRange{to.Add(-minutes(1 + nighttest.Uniform(t, 10000))), to}
		}
		// Awake ranges can be carried over if they hold now, and nothing overrules them.
		awake := func() []oldRange {
			return []oldRange{past(), {now.Add(-minutes(nighttest.Uniform(t, 5000))), now.Add(minutes(nighttest.Uniform(t, 5000)))}}
		}
		asleep := func() []oldRange {
			from := now.Add(minutes(nighttest.Uniform(t, 20000) - 5000))
			return []oldRange{{from, from.Add(minutes(1 + nighttest.Uniform(t, 9000)))}, past()}
		}
		up, down := oldSpec{text: "always"}, oldSpec{text: "never"}
		forceUp, forceDown := oldSpec{text: "false"}, oldSpec{text: "false"}
		switch nighttest.Uniform(t, 4) {
		case 0:
			up = drawOldSpec(t, zone, []string{"always", "never"}, awake)
		case 1:
			up = drawOldSpec(t, zone, []string{"always"}, nil)
			down = drawOldSpec(t, zone, []string{"never"}, asleep)
		case 2:
			down = drawOldSpec(t, zone, []string{"always", "never"}, asleep)
			forceDown = drawOldSpec(t, zone, []string{"false"}, asleep)
		case 3:
			up = drawOldSpec(t, zone, []string{"always"}, nil)
			down = drawOldSpec(t, zone, []string{"never"}, nil)
			forceUp = drawOldSpec(t, zone, []string{"false"}, awake)
			forceDown = drawOldSpec(t, zone, []string{"false"}, nil)
		}
		wantAsleep := func(at time.Time) bool {
			if forceUp.matches(at, loc) {
				return false
			}
			return forceDown.matches(at, loc) || !up.matches(at, loc) || down.matches(at, loc)
		}

		c := testConverter(defaults, now)
		d := oldDeployment(3)
		// On the Deployment, or on the Namespace.
		ns := oldAnnotations("force-uptime="+forceUp.text, "force-downtime="+forceDown.text)
		for _, a := range []string{"uptime=" + up.text, "downtime=" + down.text} {
			if nighttest.Uniform(t, 2) == 0 {
				maps.Copy(ns, oldAnnotations(a))
			} else {
				maps.Copy(d.Annotations, oldAnnotations(a))
			}
		}
		c.namespaces["shop"] = ns
		v := c.convert(d)
		if len(v.lost) > 0 {
			if !strings.HasSuffix(v.lost[0], "or is in an hour that its clocks repeat") {
				t.Fatalf("%q %q: lost: %s", d.Annotations, ns, v.lost)
			}
			return
		}
		var schedule night.Schedule
		if v.ok {
			if schedule, err = night.ParseSchedule(v.annotations, c.defaults); err != nil {
				t.Fatal(err)
			}
		}

		instants := []time.Time{now}
		for _, s := range []oldSpec{up, down, forceUp, forceDown} {
			for _, r := range s.ranges {
				instants = append(instants, r.from, r.to)
			}
			for _, p := range s.spans {
				for day := range 9 {
					date := now.In(loc).AddDate(0, 0, day)
					for _, m := range []int{p.from, p.to} {
						instants = append(instants, time.Date(date.Year(), date.Month(), date.Day(), 0, m, 0, 0, loc))
					}
				}
			}
		}
		for range 60 {
			instants = append(instants, now.Add(minutes(nighttest.Uniform(t, 400*24*60))))
		}
		for _, at := range slices.Clone(instants) {
			instants = append(instants, at.Add(-time.Second), at.Add(time.Minute))
		}
		for _, at := range instants {
			if at.Before(now) || shownTwice(at, loc) {
				continue
			}
			got := false
			if v.ok {
				state, err := schedule.At(at)
				if err != nil {
					t.Fatal(err)
				}
				got = state.Asleep
			}
			if want := wantAsleep(at); got != want {
				t.Fatalf("%s: asleep %v, want %v\nDeployment %q\nNamespace %q\n%q", at.In(loc), got, want, d.Annotations, ns, v.annotations)
			}
		}
	})
}

// TestPropertyConvertSleepInfo: what is printed sleeps when kube-green lets sleep. The
// model waits for one point after the other, as kube-green does, minute by minute.
func TestPropertyConvertSleepInfo(t *testing.T) {
	weekdays := map[string][]time.Weekday{
		"*": {0, 1, 2, 3, 4, 5, 6}, "1-5": {1, 2, 3, 4, 5}, "0,6": {0, 6}, "Sat,Sun": {6, 0}, "3": {3}, "0": {0}, "Mon-Fri": {1, 2, 3, 4, 5},
		"1,3,5": {1, 3, 5}, "MON,WED": {1, 3}, "*/2": {0, 2, 4, 6}, "tue/2": {2, 4, 6}, "?": {0, 1, 2, 3, 4, 5, 6}, "1-5/3,6": {1, 4, 6}, "0-4": {0, 1, 2, 3, 4}, "5": {5},
	}
	hours := map[string][]int{"*/8": {0, 8, 16}, "9,17": {9, 17}, "20-22": {20, 21, 22}, "6/9": {6, 15}}
	for h := range 24 {
		hours[fmt.Sprintf("%02d", h)] = []int{h}
	}
	texts := func(m map[string][]int) []string { return slices.Sorted(maps.Keys(m)) }
	days := slices.Sorted(maps.Keys(weekdays))
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // no clock changes in January
	defaults := nighttest.Defaults(t)
	rapid.Check(t, func(t *rapid.T) {
		zone := nighttest.Among(t, "UTC", "Europe/Rome", "Asia/Kolkata", "Pacific/Chatham", "America/New_York")
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		dayText := nighttest.Among(t, days...)
		sleepHour, wakeHour := nighttest.Among(t, texts(hours)...), nighttest.Among(t, texts(hours)...)
		// Different minutes, or both would be at the same time now and then.
		sleepMinute := 5 * nighttest.Uniform(t, 12)
		wakeMinute := (sleepMinute + 5*(1+nighttest.Uniform(t, 11))) % 60

		c := testConverter(defaults, start)
		c.sleepInfos = []*sleepInfo{sleepInfoOf(t, fmt.Sprintf(`{weekdays: %q, sleepAt: "%s:%02d", wakeUpAt: "%s:%02d", timeZone: %s}`,
			dayText, sleepHour, sleepMinute, wakeHour, wakeMinute, zone))}
		v := c.convert(oldDeployment(3))
		if !v.ok || len(v.lost) > 0 {
			t.Fatalf("%q", v.lost)
		}
		schedule, err := night.ParseSchedule(v.annotations, c.defaults)
		if err != nil {
			t.Fatal(err)
		}
		asleep, passed := false, 0
		for at := start; at.Before(start.AddDate(0, 0, 24)); at = at.Add(time.Minute) {
			local := at.In(loc)
			hour, minute := hours[sleepHour], sleepMinute
			if asleep {
				hour, minute = hours[wakeHour], wakeMinute
			}
			changes := local.Minute() == minute && slices.Contains(hour, local.Hour()) && slices.Contains(weekdays[dayText], local.Weekday())
			if changes {
				asleep = !asleep
				passed++
			}
			// Until it has slept once, nothing is known of the week before.
			if passed == 0 || !changes && local.Minute()%29 != 0 {
				continue
			}
			state, err := schedule.At(at)
			if err != nil {
				t.Fatal(err)
			}
			if state.Asleep != asleep {
				t.Fatalf("%s: asleep %v, want %v: %q, from %q", local, state.Asleep, asleep, v.annotations, v.source)
			}
		}
		if passed < 4 {
			t.Fatalf("only %d changes in three weeks: %s", passed, v.source)
		}
	})
}
