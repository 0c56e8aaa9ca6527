package night

import (
	"archive/zip"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// maxTurns is how often an answer of At may ask the rules of a zone, whatever
	// ParseSchedule has accepted, with the longest delay and stagger on top. It follows from
	// TestZonesChangeSeldom.
	maxTurns = 8
	// maxLooks bounds the rest of its work: each item of the longest text, on each date
	// from the two of the delay before now to the horizon after it.
	maxLooks = (1 + 4096/len("00:00-00:01,")) * (366 + 6)
)

// costly are the schedules that cost the most of those that are accepted, as annotations
// without Prefix.
func costly(t testing.TB) map[string]map[string]string {
	t.Helper()
	items := func(days string, minutes, step int) string {
		var list []string
		for at := 0; at+minutes <= MinutesPerDay; at += step {
			list = append(list, days+clockText(at)+"-"+clockText(at+minutes))
		}
		return fill(list)
	}
	dates := func(first string, step int, form string) string {
		day, err := time.Parse(time.DateOnly, first)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for range 400 {
			list = append(list, fmt.Sprintf(form, day.Format(time.DateOnly)))
			day = day.AddDate(0, 0, step)
		}
		return fill(list)
	}
	ages := make([]string, 200)
	for i := range ages {
		ages[i] = "0000-01-01/9999-12-31 " + clockText(2*i) + "-" + clockText(2*i+1)
	}
	clocks := items("", 1, 2)
	return map[string]map[string]string{
		"a chain of five minutes":            {"window": items("", 5, 5)},
		"a chain but for one link":           {"window": strings.TrimSuffix(items("", 5, 5), ",23:55-24:00")},
		"hundreds a day":                     {"window": clocks},
		"hundreds a day, by a delay one":     {"window": clocks, "wake-delay": "24h"},
		"the same with hundreds of dates":    {"window": clocks, "wake-delay": "24h", "except": dates("2020-01-01", 1, "%s")},
		"the same where no night is left":    {"window": clocks, "except": "0000-01-01/9999-12-31"},
		"on Mondays alone, none left":        {"window": items("Mon ", 1, 2), "except": "Mon"},
		"by the date, for ever":              {"window": fill(ages), "wake-delay": "24h", "except": dates("2020-01-01", 1, "%s")},
		"by the date, long ago":              {"window": dates("1990-01-01", 1, "%s 00:00-00:01"), "except": dates("1990-01-01", 1, "%s")},
		"by the date, one night in hundreds": {"window": dates("1990-01-01", 1, "%s") + " 00:00-00:01", "except": dates("1990-01-01", 1, "%s")},
		"by the date, each second day":       {"window": dates("2026-11-01", 2, "%s") + " 00:00-00:01", "wake-delay": "24h", "except": dates("1990-01-01", 1, "%s")},
		"nothing to it":                      {"window": "21:00-07:00"},
		"always":                             {"window": "00:00-24:00"},
	}
}

// clockText is a minute of the day as a window has it.
func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// fill is as much of the list as an annotation may have, with room for a time of day.
func fill(list []string) string {
	for n := len(list); ; n-- {
		if text := strings.Join(list[:n], ","); len(text) <= MaxText-len(" 00:00-00:01") {
			return text
		}
	}
}

// costlySchedule reads annotations without Prefix; a delay is with the longest stagger.
func costlySchedule(t testing.TB, annotations map[string]string, zone string) Schedule {
	t.Helper()
	all := map[string]string{AnnotationOn: "true", AnnotationExpected: "3", AnnotationTimezone: zone}
	for name, value := range annotations {
		all[Prefix+name] = value
	}
	s, err := ParseSchedule(all, Schedule{})
	if err != nil {
		t.Fatalf("%q: %v", all, err)
	}
	if s.WakeDelay > 0 {
		s.WakeDelay += MaxWakeDelay - time.Millisecond
	}
	return s
}

// checkCost asks about an instant, and holds the cost to its bounds.
func checkCost(t *testing.T, s *Schedule, now time.Time) (State, cost) {
	t.Helper()
	state, cost, err := s.at(now)
	if err != nil {
		t.Errorf("%s: %v", now, err)
	}
	if cost.turns > maxTurns || cost.looks > maxLooks {
		t.Errorf("%s %s, except %s, at %s: %d turns of at most %d, %d looks of at most %d", s.Location, s.Window.String(), s.Except.String(), now,
			cost.turns, maxTurns, cost.looks, maxLooks)
	}
	return state, cost
}

// TestScheduleCost: no schedule costs much, wherever and whenever it is.
func TestScheduleCost(t *testing.T) {
	most := cost{}
	for name, annotations := range costly(t) {
		for _, zone := range []string{"UTC", "Europe/Berlin", "Africa/Casablanca", "Asia/Gaza", "Africa/Cairo", "Pacific/Apia", "Antarctica/Troll", "America/New_York"} {
			s := costlySchedule(t, annotations, zone)
			for _, at := range []string{"2026-11-28T12:00:00Z", "2026-11-28T00:00:30Z", "2011-12-29T12:00:00Z", "2028-12-31T12:00:00Z", "2085-04-13T00:00:00Z", "2009-09-01T00:00:00Z"} {
				now, err := time.Parse(time.RFC3339, at)
				if err != nil {
					t.Fatal(err)
				}
				for _, s.AwakeUntil = range []time.Time{{}, now.Add(-time.Hour), now.Add(36 * time.Hour), now.Add(horizon), now.Add(horizon + 1)} {
					state, cost := checkCost(t, &s, now)
					most = maxCost(most, cost)
					if !state.Next.IsZero() && (!state.Next.After(now) || state.Next.After(now.Add(horizon))) {
						t.Errorf("%s in %s at %s: next is %s", name, zone, at, state.Next)
					}
				}
			}
		}
	}
	t.Logf("at most %d turns and %d looks", most.turns, most.looks)
	if most.turns < 2 || most.looks < maxLooks/2 {
		t.Error("these cannot have been the costliest")
	}
}

func maxCost(a, b cost) cost { return cost{max(a.turns, b.turns), max(a.looks, b.looks)} }

// TestMerge: items that touch or overlap on the same weekdays are looked at as one.
func TestMerge(t *testing.T) {
	for window, want := range map[string]int{
		"21:00-07:00":                         1,
		"21:00-23:00,23:00-24:00":             1, // they touch
		"21:00-23:00,22:00-24:00":             1,
		"21:00-24:00,22:00-23:00":             1,
		"21:00-22:59,23:00-24:00":             2,
		"Mon 21:00-23:00,Mon 23:00-24:00":     1,
		"Mon 21:00-23:00,Tue 23:00-24:00":     2,
		"2026-01-01 21:00-22:00,22:00-23:00":  2, // dates are looked up one by one
		"23:00-02:00,00:00-01:00,01:00-02:00": 2, // the first starts after the others
	} {
		s := Schedule{Location: time.UTC}
		var err error
		if s.Window, err = ParseWindow(window); err != nil {
			t.Fatal(err)
		}
		var room few
		if w := s.walk(time.Now(), &room); len(w.items) != want {
			t.Errorf("%s: %d items, want %d", window, len(w.items), want)
		}
	}
}

// TestScheduleTime: the costliest takes a millisecond at most on a machine of its own.
func TestScheduleTime(t *testing.T) {
	const limit = 20 * time.Millisecond // others may be at work on this one, or the race detector
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, annotations := range costly(t) {
		s := costlySchedule(t, annotations, "Africa/Casablanca")
		best := time.Hour
		for range 10 {
			begun := time.Now()
			if _, err := s.At(now); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(begun))
		}
		if t.Logf("%s: %v", name, best); best > limit {
			t.Errorf("%s takes %v", name, best)
		}
	}
}

// TestStatesCost: to follow a schedule costs little more than to ask it once.
func TestStatesCost(t *testing.T) {
	from := time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC)
	to := from.Add(744 * time.Hour)
	for name, annotations := range costly(t) {
		s := costlySchedule(t, annotations, "Africa/Casablanca")
		begun := time.Now()
		n, at := 0, from
		for state, err := range s.States(from, to) {
			if n++; err != nil || !state.Next.IsZero() && !state.Next.After(at) {
				t.Fatalf("%s: state %d at %s is %+v, error %v", name, n, at, state, err)
			}
			at = state.Next
		}
		if n > 2*32*(1+4096/len("00:00-00:01,")) {
			t.Errorf("%s: %d states", name, n)
		}
		if t.Logf("%s: %d states in %v", name, n, time.Since(begun)); time.Since(begun) > time.Second {
			t.Errorf("%s takes %v", name, time.Since(begun))
		}
	}
}

// TestZonesChangeSeldom is why an answer asks the rules of a zone seldom: no zone has more
// spells in what At looks at, and none so many within the dates between which a walk goes
// to and fro that its clock would forget one that it needs again.
func TestZonesChangeSeldom(t *testing.T) {
	archive, err := zip.OpenReader("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		loc, err := ParseLocation(file.Name)
		if err != nil {
			t.Fatalf("%s: %v", file.Name, err)
		}
		var starts []int64
		end := time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for at := time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); at < end; {
			s := spellAt(time.Unix(at, 0).In(loc))
			if s.start > at || s.end <= at || s.from >= s.to {
				t.Fatalf("%s: the spell at %d is %+v", file.Name, at, s)
			}
			at = s.end
			starts = append(starts, at)
		}
		for i, start := range starts {
			within := func(days int64) int {
				n, _ := slices.BinarySearch(starts, start+days*secondsPerDay)
				return n - i
			}
			if spells := within(366+2+5) + 1; spells > maxTurns {
				t.Errorf("%s has %d spells within the horizon from %s", file.Name, spells, time.Unix(start, 0).UTC())
			}
			if spells := within(4) + 1; spells > len(clock{}.spells) {
				t.Errorf("%s has %d spells within days from %s", file.Name, spells, time.Unix(start, 0).UTC())
			}
		}
	}
}

// FuzzCost builds schedules from bytes: whatever is accepted keeps to the bounds, and
// changes where it says that it does.
func FuzzCost(f *testing.F) {
	zones := []string{"UTC", "Europe/Berlin", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "Antarctica/Troll", "Africa/Cairo", "America/St_Johns"}
	every := make([]byte, 4*341)
	for i := range 341 {
		copy(every[4*i:], []byte{0, byte(2 * i / 8), byte(2 * i % 8 << 5), 1})
	}
	f.Add(uint8(2), int64(1796000000), uint32(24*60*60), int32(0), every, []byte{})
	f.Add(uint8(4), int64(1325203200), uint32(0), int32(90000), []byte{1, 100, 0, 255, 2, 9, 9, 9, 3, 7, 7, 7}, []byte{2, 1, 5, 1})
	f.Add(uint8(0), int64(0), uint32(0), int32(-1), []byte{0, 0, 0, 255}, []byte{})
	f.Fuzz(func(t *testing.T, zone uint8, at int64, delay uint32, awake int32, window, except []byte) {
		at %= 100 * 366 * secondsPerDay // a century around 1970
		now := time.Unix(at, 0).UTC()
		// days is a day, a date, or a range of dates near now, or nothing.
		days := func(b []byte) string {
			first := now.AddDate(0, 0, int(int8(b[1])))
			switch b[0] % 5 {
			case 1:
				return DayNames[b[1]%7] + "-" + DayNames[b[2]%7]
			case 2:
				return first.Format(time.DateOnly)
			case 3:
				return first.Format(time.DateOnly) + "/" + first.AddDate(0, 0, int(b[2])).Format(time.DateOnly)
			case 4:
				return DayNames[b[1]%7]
			}
			return ""
		}
		var items, not []string
		for b := window; len(b) >= 4; b = b[4:] {
			start := (int(b[1])<<3 | int(b[2])>>5) % MinutesPerDay
			end := (start + max(1, int(b[3])*1439/255)) % MinutesPerDay
			items = append(items, days(b)+" "+clockText(start)+"-"+clockText(end))
			if b[0] >= 128 && days(b) != "" { // lent to the next
				items[len(items)-1] = days(b)
			}
		}
		items = append(items, "21:00-07:00")
		for b := except; len(b) >= 3; b = b[3:] {
			if text := days(b); text != "" {
				not = append(not, text)
			}
		}
		for i, item := range items {
			items[i] = strings.TrimSpace(item)
		}
		for len(strings.Join(items, ",")) > MaxText {
			items = items[1:]
		}
		annotations := map[string]string{"window": strings.Join(items, ",")}
		if text := fill(not); text != "" {
			annotations["except"] = text
		}
		if delay %= 24*60*60 + 1; delay > 0 {
			annotations["wake-delay"] = (time.Duration(delay) * time.Second).String()
		}
		s := costlySchedule(t, annotations, zones[int(zone)%len(zones)])
		if awake != 0 {
			s.AwakeUntil = now.Add(time.Duration(awake) * time.Second)
		}
		state, _ := checkCost(t, &s, now)
		for n := 0; n < 3 && !state.Next.IsZero(); n++ {
			next, _ := checkCost(t, &s, state.Next)
			if next.Asleep == state.Asleep {
				t.Fatalf("%s %q: nothing changes at %s", s.Location, annotations, state.Next)
			}
			state = next
		}
	})
}

// BenchmarkScheduleWorst is the worst that can be built.
func BenchmarkScheduleWorst(b *testing.B) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, annotations := range costly(b) {
		b.Run(name, func(b *testing.B) {
			s := costlySchedule(b, annotations, "Africa/Casablanca")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.At(now); err != nil {
					b.Fatal(err)
				}
			}
			_, cost, _ := s.at(now)
			b.ReportMetric(float64(cost.turns), "turns")
			b.ReportMetric(float64(cost.looks), "looks")
		})
	}
}
