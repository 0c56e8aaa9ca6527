package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"schedule-night/internal/night"
)

const minutesPerWeek = 7 * night.MinutesPerDay

// week is a set of minutes of a local week; minute 0 is Monday's first.
type week [minutesPerWeek]bool

// set adds the minutes [from, to) of a day, 0 being Monday.
func (w *week) set(day, from, to int) {
	for m := from; m < to; m++ {
		w[day*night.MinutesPerDay+m] = true
	}
}

// count is how many minutes are in the set.
func (w *week) count() (n int) {
	for _, in := range w {
		if in {
			n++
		}
	}
	return n
}

// dailySpan is a span of local time on the days on which it lies in a week; the end
// may be on the day after, as that of an item of a Window.
type dailySpan struct{ start, end int }

func (s dailySpan) minutes() int {
	if s.end <= s.start {
		return s.end - s.start + night.MinutesPerDay
	}
	return s.end - s.start
}

// runs are the longest spans of minutes in the set, each from its start for so many
// minutes; the last may run over the end of the week.
func (w *week) runs() (runs [][2]int) {
	for m := range w {
		if !w[m] || w[(m+minutesPerWeek-1)%minutesPerWeek] {
			continue
		}
		n := 1
		for w[(m+n)%minutesPerWeek] {
			n++
		}
		runs = append(runs, [2]int{m, n})
	}
	return runs
}

// window is a Window that sleeps in the minutes of the set, of which there must be
// some. It tries the spans that the set's own runs are made of on all days on which
// they fit, and takes the one that adds most, until nothing is missing: so that it
// finds what a person would write, such as 20:00-08:00, Sat-Sun 00:00-24:00.
func (w *week) window() night.Window {
	var result night.Window
	spans := []dailySpan{{0, night.MinutesPerDay}}
	add := func(start, end int) {
		if span := (dailySpan{start, end}); !slices.Contains(spans, span) {
			spans = append(spans, span)
		}
	}
	for _, run := range w.runs() {
		start, end := run[0]%night.MinutesPerDay, (run[0]+run[1])%night.MinutesPerDay
		if end == 0 {
			end = night.MinutesPerDay
		}
		switch whole := (dailySpan{start, end}).minutes(); {
		case start == end: // days of 24 hours, but not from midnight
		case run[1] == whole:
			add(start, end)
			continue
		default:
			add(start, end) // may fit into each of its days
		}
		add(start, night.MinutesPerDay)
		add(0, end)
	}

	missing := *w
	for missing.count() > 0 {
		var best dailySpan
		bestDays, most := uint8(0), 0
		for _, span := range spans {
			if days, added := w.fit(span, &missing); added > most {
				best, bestDays, most = span, days, added
			}
		}
		var days []time.Weekday
		for day := range 7 {
			if bestDays&(1<<day) == 0 {
				continue
			}
			days = append(days, time.Weekday((day+1)%7))
			for m := range best.minutes() {
				missing[(day*night.MinutesPerDay+best.start+m)%minutesPerWeek] = false
			}
		}
		result.Add(night.Item{Days: night.OnWeekdays(days...), Start: int16(best.start), End: int16(best.end)})
	}
	return result
}

// allDays has a bit for each day of a week.
const allDays = 1<<7 - 1

// fit tells on which days (bit 0 is Monday) to sleep for a span, and how many of the
// missing minutes that adds: on every day, if it lies in the set on each, so that the
// text is short, or else on those on which it adds something.
func (w *week) fit(span dailySpan, missing *week) (days uint8, added int) {
	everywhere := true
	for day := range 7 {
		n, ok := 0, true
		for m := 0; m < span.minutes() && ok; m++ {
			at := (day*night.MinutesPerDay + span.start + m) % minutesPerWeek
			if ok = w[at]; missing[at] {
				n++
			}
		}
		everywhere = everywhere && ok
		if ok && n > 0 {
			days |= 1 << day
			added += n
		}
	}
	if everywhere {
		days = allDays
	}
	return days, added
}

// instants is a range of time, from the one up to, not including, the other.
type instants struct{ from, to time.Time }

func (r instants) String() string {
	return r.from.Format(time.RFC3339) + " to " + r.to.Format(time.RFC3339)
}

// timeSpec is what a value of kube-downscaler's uptime or downtime means: minutes of
// each week in a zone, and ranges of time.
type timeSpec struct {
	zone   string // "" if the week is all or nothing
	week   week
	ranges []instants
	// minuteShort is set if a part ends at 23:59, where 24:00 is likely to be meant.
	minuteShort bool
}

// sometimes tells that it is neither always nor never.
func (s *timeSpec) sometimes() bool { return s.zone != "" || len(s.ranges) > 0 }

var (
	weeklySpec   = regexp.MustCompile(`^([A-Za-z]{3})-([A-Za-z]{3}) (\d\d):(\d\d)-(\d\d):(\d\d)(?: (\S+))?$`)
	absoluteSpec = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[-+]\d\d:\d\d|Z))-(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[-+]\d\d:\d\d|Z))$`)
)

// parseTimeSpec reads always, never, or a list of
//
//	Mon-Fri 08:00-18:00 Europe/Berlin
//	2026-12-24T00:00:00+01:00-2026-12-27T00:00:00+01:00
//
// by the rules of py-kube-downscaler: the first kind holds on each of the local days
// from the one weekday to the other, Sat-Mon wraps, from the one time of that day to
// before the other.
func parseTimeSpec(text string) (timeSpec, error) {
	var spec timeSpec
	switch strings.ToLower(text) {
	case "always":
		for m := range spec.week {
			spec.week[m] = true
		}
		return spec, nil
	case "never":
		return spec, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		var err error
		if match := absoluteSpec.FindStringSubmatch(part); match != nil {
			err = spec.addRange(match[1], match[2])
		} else if match := weeklySpec.FindStringSubmatch(part); match != nil {
			err = spec.addWeekly(match[1:])
		} else {
			err = errors.New("want always, never, or such as Mon-Fri 08:00-18:00 Europe/Berlin")
		}
		if err != nil {
			return spec, fmt.Errorf("%s: %w", night.Quote(part), err)
		}
	}
	return spec, nil
}

func (s *timeSpec) addRange(from, to string) error {
	start, err1 := night.ParseInstant(from)
	end, err2 := night.ParseInstant(to)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !start.Before(end) {
		return errors.New("ends before it starts")
	}
	s.ranges = append(s.ranges, instants{start, end})
	return nil
}

// addWeekly adds a span of each week: first day, last day, hours and minutes of the
// start and of the end, zone.
func (s *timeSpec) addWeekly(match []string) error {
	first, err1 := parseDayName(match[0])
	last, err2 := parseDayName(match[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	minutes := func(hh, mm string) int {
		h, _ := strconv.Atoi(hh)
		m, _ := strconv.Atoi(mm)
		return h*60 + m
	}
	from, to := minutes(match[2], match[3]), minutes(match[4], match[5])
	zone := match[6]
	switch {
	case match[3] > "59" || match[5] > "59" || from > night.MinutesPerDay || to > night.MinutesPerDay:
		return errors.New("want times from 00:00 to 24:00")
	case from%night.MinutesPerDay == to%night.MinutesPerDay && to-from != night.MinutesPerDay:
		return fmt.Errorf("it ends when it starts, and neither py-kube-downscaler nor GoKubeDownscaler ever matches that; write never to keep it so, or %s-%s 00:00-24:00 if whole days are meant",
			match[0], match[1])
	case to == 0:
		return errors.New("py-kube-downscaler never matches an end of 00:00; write 24:00")
	case from >= to:
		return fmt.Errorf("py-kube-downscaler never matches a span that ends before it starts, GoKubeDownscaler does; write what is meant as two, such as %s-%s %s:%s-24:00 and 00:00-%s:%s on its days",
			match[0], match[1], match[2], match[3], match[4], match[5])
	case zone == "":
		return errors.New("without a time zone, the one of the controller counts ($TZ); write it")
	case s.zone != "" && s.zone != zone:
		return fmt.Errorf("a Deployment has one time zone, and there is %s already", night.Quote(s.zone))
	}
	if _, err := night.ParseLocation(zone); err != nil {
		return err
	}
	s.zone = zone
	s.minuteShort = s.minuteShort || to == night.MinutesPerDay-1
	for day := first; ; day = (day + 1) % 7 {
		s.week.set(day, from, to)
		if day == last {
			return nil
		}
	}
}

// parseDayName is the number of a weekday by its first three letters, 0 for Monday.
func parseDayName(name string) (int, error) {
	for i, day := range night.DayNames {
		if strings.EqualFold(day, name) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s is not a day; use %s", night.Quote(name), night.WeekdayList)
}

// dateItems are the items of a Window that sleep in a range of time, which must
// start and end at whole minutes of the zone.
func dateItems(r instants, loc *time.Location) ([]night.Item, error) {
	minute := func(t time.Time) (night.Date, int, error) {
		d, local := night.DateOf(t, loc), t.In(loc)
		m := local.Hour()*60 + local.Minute()
		if !night.Instant(d, m, loc).Equal(t) {
			return 0, 0, fmt.Errorf("%s is no whole minute of %s, or is in an hour that its clocks repeat", t.Format(time.RFC3339), loc)
		}
		return d, m, nil
	}
	first, start, err1 := minute(r.from)
	last, end, err2 := minute(r.to)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if end == 0 { // the end of the day before
		last, end = last-1, night.MinutesPerDay
	}
	var items []night.Item
	add := func(first, last night.Date, start, end int) {
		if first <= last && start < end {
			items = append(items, night.Item{Days: night.OnDates(first, last), Start: int16(start), End: int16(end)})
		}
	}
	if first == last {
		add(first, last, start, end)
		return items, nil
	}
	if start > 0 {
		add(first, first, start, night.MinutesPerDay)
		first++
	}
	if end < night.MinutesPerDay {
		last--
	}
	add(first, last, 0, night.MinutesPerDay)
	if end < night.MinutesPerDay {
		add(last+1, last+1, 0, end)
	}
	return items, nil
}

// sleepWeek is when kube-green lets sleep what a SleepInfo selects. Both times are
// points of the weekdays that it names: what goes to sleep at the one is asleep until
// the other comes round next, which may be days later.
func sleepWeek(weekdays, sleepAt, wakeUpAt string) (week, error) {
	const sleep, wake = 1, 2
	var points [minutesPerWeek]int8
	days, err := parseCron(cron.Dow, weekdays)
	if err != nil {
		return week{}, fmt.Errorf("weekdays %s: %w", night.Quote(weekdays), err)
	}
	for _, p := range []struct {
		field, value string
		point        int8
	}{{"sleepAt", sleepAt, sleep}, {"wakeUpAt", wakeUpAt, wake}} {
		split := strings.Split(p.value, ":")
		if len(split) != 2 {
			return week{}, fmt.Errorf("%s %s: want HH:MM", p.field, night.Quote(p.value))
		}
		hours, err1 := parseCron(cron.Hour, split[0])
		minutes, err2 := parseCron(cron.Minute, split[1])
		if err := cmp.Or(err1, err2); err != nil {
			return week{}, fmt.Errorf("%s %s: %w", p.field, night.Quote(p.value), err)
		}
		for m := range points {
			day := (m/night.MinutesPerDay + 1) % 7 // of cron: Monday is 1
			if days>>day&1 == 1 && hours>>(m/60%24)&1 == 1 && minutes>>(m%60)&1 == 1 {
				points[m] |= p.point
			}
		}
	}
	// The state at the start of the week is known once a point has been passed.
	var asleep week
	state, since := false, 0
	for m := range 2 * minutesPerWeek {
		point := points[m%minutesPerWeek]
		if point == sleep|wake {
			return week{}, errors.New("sleepAt and wakeUpAt are sometimes at the same minute")
		}
		if next := point == sleep; point != 0 && next != state {
			// kube-green looks for the next point a minute after the last.
			if m > since && m-since < 2 && m >= minutesPerWeek {
				return week{}, errors.New("sleepAt and wakeUpAt are sometimes a minute apart, which kube-green may miss")
			}
			state, since = next, m
		}
		asleep[m%minutesPerWeek] = state
	}
	return asleep, nil
}

// cronWants is what to write in the fields that a SleepInfo has of a cron schedule.
var cronWants = map[cron.ParseOption]string{
	cron.Dow:    "want days as cron has them, 0-6 or Sun-Sat, such as 1-5, Mon,Wed or */2",
	cron.Hour:   "want hours as cron has them, 0-23, such as 20, 8-18/2 or *",
	cron.Minute: "want minutes as cron has them, 0-59, such as 00, 0,30 or */15",
}

// parseCron reads a field of a cron schedule as kube-green does, which joins three of
// them into a line for the same parser. Bit n of the result is set if the field names
// n, and one is at least: for the parser "," is no time at all, and no error.
//
// What would change the meaning of the line is refused before: more than one word, a
// time zone, and descriptors such as @daily. The parser panics on some of these.
func parseCron(field cron.ParseOption, text string) (bits uint64, err error) {
	// Its own errors are for those who read Go, and as long as the text.
	refused := errors.New(cronWants[field])
	defer func() {
		if recover() != nil {
			bits, err = 0, refused
		}
	}()
	words := strings.Fields(text)
	if len(words) != 1 || strings.ContainsAny(words[0], "=@") {
		return 0, refused
	}
	parsed, err := cron.NewParser(field).Parse(words[0])
	schedule, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return 0, refused
	}
	switch field {
	case cron.Dow:
		bits = schedule.Dow
	case cron.Hour:
		bits = schedule.Hour
	default:
		bits = schedule.Minute
	}
	if bits &^= 1 << 63; bits == 0 { // that one says that there was a star
		return 0, refused
	}
	return bits, nil
}
