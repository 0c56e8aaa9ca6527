package main

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The properties hold Schedule against a reference that shares no code with
// it: a schedule is drawn as plain numbers and its text is written from them,
// and what a zone's clock does is learnt by looking at it once a minute.

const (
	refDay          = 24 * 60 // minutes
	refLongestDelay = 24 * time.Hour
	refHorizon      = 366 * 24 * time.Hour

	// The dates that can be written, in days since 1970-01-01.
	refFirstDate = -719528
	refLastDate  = 2932896
)

var (
	refBegin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	refEnd   = time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)
)

// refZones is all that time/tzdata has, from the archive that it is generated
// from: time.LoadLocation prefers the system's files, which may be of another
// release.
type refZones struct {
	names  []string
	byName map[string]*time.Location
	// changes are those of 2000 to 2040, one list for each kind: how far the
	// clock moves, and at which local time. Who draws a list first sees the
	// rare kinds as often as the common ones.
	changes [][]refPlace
}

// refPlace is an instant to look at in a zone.
type refPlace struct {
	zone string
	at   time.Time
}

var loadZones = sync.OnceValues(func() (*refZones, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("asking for GOROOT: %w", err)
		}
		root = strings.TrimSpace(string(out))
	}
	archive, err := zip.OpenReader(filepath.Join(root, "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	z := &refZones{byName: map[string]*time.Location{}}
	for _, file := range archive.File {
		if file.FileInfo().IsDir() {
			continue
		}
		data, err := fs.ReadFile(archive, file.Name)
		if err != nil {
			return nil, err
		}
		loc, err := time.LoadLocationFromTZData(file.Name, data)
		if err != nil {
			return nil, fmt.Errorf("zone %s: %w", file.Name, err)
		}
		z.names = append(z.names, file.Name)
		z.byName[file.Name] = loc
	}
	slices.Sort(z.names)

	type kind struct{ shift, minute int }
	lists := map[kind]int{}
	for _, name := range z.names {
		for at := refBegin.In(z.byName[name]); at.Before(refEnd); {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			if !end.After(at) { // to ZoneBounds, a year that only a rule covers has 365 days
				at = at.Add(24 * time.Hour)
				continue
			}
			before, after := refMinute(end.Add(-time.Minute))+1, refMinute(end)
			if before != after && end.Before(refEnd) {
				if _, offset := end.Zone(); offset%60 != 0 || end.Second() != 0 {
					return nil, fmt.Errorf("zone %s: seconds matter at %s, and the reference steps by the minute", name, end)
				}
				k := kind{after - before, before % refDay}
				if _, ok := lists[k]; !ok {
					lists[k] = len(z.changes)
					z.changes = append(z.changes, nil)
				}
				z.changes[lists[k]] = append(z.changes[lists[k]], refPlace{name, end})
			}
			at = end
		}
	}
	if len(z.names) < 400 || len(z.changes) < 20 {
		return nil, fmt.Errorf("%d zones and %d kinds of clock changes cannot be all", len(z.names), len(z.changes))
	}
	return z, nil
})

func mustZones(t *testing.T) *refZones {
	t.Helper()
	z, err := loadZones()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// refMinute is what the local clock shows, in minutes since the local time
// 1970-01-01 00:00.
func refMinute(at time.Time) int {
	hour, minute, _ := at.Clock()
	return refDate(at)*refDay + hour*60 + minute
}

// refDate is the date that the local clock shows, in days since 1970-01-01.
func refDate(at time.Time) int {
	year, month, day := at.Date()
	return int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

func refDateText(date int) string {
	return time.Date(1970, 1, 1+date, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// refClock is what a walk from minute to minute has seen of a zone's clock.
type refClock struct {
	loc     *time.Location
	base    int           // the local minute at index 0 of shown
	shown   []int32       // when the clock first showed a local minute, in minutes since 1970; 0 is never
	skipped map[int]int32 // when the clock first jumped over a local minute
	// The nights that start on the dates from first to last can be told from
	// the walk, and no others reach between from and until.
	first, last int
	from, until time.Time
}

func walkClock(loc *time.Location, from, to time.Time) *refClock {
	from, to = from.In(loc).Truncate(time.Minute), to.In(loc)
	previous := refMinute(from) - 1
	c := &refClock{loc: loc, base: previous - refDay, skipped: map[int]int32{}}
	c.shown = make([]int32, int(to.Sub(from)/time.Minute)+4*refDay)
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		now, local := int32(at.Unix()/60), refMinute(at)
		if c.shown[local-c.base] == 0 {
			c.shown[local-c.base] = now
		}
		for m := previous + 1; m < local; m++ {
			if c.skipped[m] == 0 {
				c.skipped[m] = now
			}
		}
		previous = local
	}
	// The walk may have begun after the first of two showings, and nights end
	// on the date after the one that they belong to.
	c.first, c.last = refDate(from)+2, refDate(to)-3
	c.from = c.instant((c.first + 1) * refDay).Add(refLongestDelay)
	c.until = c.instant((c.last + 1) * refDay)
	return c
}

// instant is when a local time happens: when the clock first shows it, or else
// when the gap that swallows it ends.
func (c *refClock) instant(local int) time.Time {
	minutes := c.shown[local-c.base]
	if minutes == 0 {
		minutes = c.skipped[local]
	}
	if minutes == 0 {
		panic(fmt.Sprintf("%s: the walk has not seen local minute %d", c.loc, local))
	}
	return time.Unix(int64(minutes)*60, 0).In(c.loc)
}

// refDays is a set of days.
type refDays struct {
	weekdays [7]bool  // by time.Weekday
	dates    [][2]int // from, to
}

func (d *refDays) has(date int) bool {
	if d.weekdays[time.Date(1970, 1, 1+date, 0, 0, 0, 0, time.UTC).Weekday()] {
		return true
	}
	return slices.ContainsFunc(d.dates, func(r [2]int) bool { return r[0] <= date && date <= r[1] })
}

// refItem is an item of a window, in minutes of the day.
type refItem struct {
	everyDate  bool
	days       refDays
	start, end int
}

func (i *refItem) has(date int) bool { return i.everyDate || i.days.has(date) }

// refSchedule is a schedule as the annotations mean it.
type refSchedule struct {
	items                   []refItem
	except                  refDays
	wakeDelay               time.Duration
	awakeUntil, asleepUntil time.Time
}

// refSpan is a half-open interval.
type refSpan struct{ start, end time.Time }

// union is the union of the nights of the clock's dates, as intervals in order
// that do not touch.
func (r *refSchedule) union(c *refClock) []refSpan {
	var all, union []refSpan
	for date := c.first; date <= c.last; date++ {
		if r.except.has(date) {
			continue
		}
		for i := range r.items {
			item := &r.items[i]
			if !item.has(date) {
				continue
			}
			endDate := date
			if item.end <= item.start {
				endDate++
			}
			night := refSpan{c.instant(date*refDay + item.start), c.instant(endDate*refDay + item.end)}
			if night.start.Before(night.end) {
				night.end = night.end.Add(r.wakeDelay)
				all = append(all, night)
			}
		}
	}
	slices.SortFunc(all, func(a, b refSpan) int { return a.start.Compare(b.start) })
	for _, night := range all {
		if n := len(union) - 1; n < 0 || union[n].end.Before(night.start) {
			union = append(union, night)
		} else if union[n].end.Before(night.end) {
			union[n].end = night.end
		}
	}
	return union
}

// refCase is a schedule twice: as parsed from annotations and as the reference
// understands it.
type refCase struct {
	annotations map[string]string
	parsed      Schedule
	refSchedule
	clock  *refClock
	nights []refSpan
}

// GoString is how rapid shows the case.
func (c *refCase) GoString() string {
	return fmt.Sprintf("%s %q", c.parsed.Location, c.annotations)
}

func (c *refCase) asleep(at time.Time) bool {
	switch {
	case c.awakeUntil.After(at):
		return false
	case c.asleepUntil.After(at):
		return true
	}
	return slices.ContainsFunc(c.nights, func(n refSpan) bool { return !at.Before(n.start) && at.Before(n.end) })
}

// boundaries are the instants, in order, at which the answer may change.
func (c *refCase) boundaries() []time.Time {
	list := []time.Time{c.awakeUntil, c.asleepUntil}
	for _, n := range c.nights {
		list = append(list, n.start, n.end)
	}
	list = slices.DeleteFunc(list, func(at time.Time) bool { return at.Before(c.clock.from) || !at.Before(c.clock.until) })
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// compare holds the parsed schedule's answer at an instant against the
// reference's.
func (c *refCase) compare(t rapid.TB, boundaries []time.Time, now time.Time) {
	t.Helper()
	state, err := c.parsed.At(now)
	if c.awakeUntil.After(now) && c.asleepUntil.After(now) {
		first := c.awakeUntil
		if c.asleepUntil.Before(first) {
			first = c.asleepUntil
		}
		if err == nil || !state.Next.Equal(first) {
			t.Fatalf("%#v\nat %s, with both overrides ahead: got %+v, error %v; want an error until %s", c, now, state, err, first)
		}
		return
	}
	asleep, override := c.asleep(now), c.awakeUntil.After(now) || c.asleepUntil.After(now)
	if err != nil || state.Asleep != asleep || state.Override != override {
		t.Fatalf("%#v\nat %s: got %+v, error %v; want asleep=%v override=%v", c, now.In(c.clock.loc), state, err, asleep, override)
	}
	limit, known := now.Add(refHorizon), c.clock.until
	var next time.Time
	for _, b := range boundaries {
		if b.After(now) && c.asleep(b) != asleep {
			next = b
			break
		}
	}
	ok := state.Next.Equal(next)
	switch {
	case next.After(limit):
		ok = state.Next.IsZero()
	case next.IsZero() && !known.After(limit):
		ok = state.Next.IsZero() || !state.Next.Before(known) && !state.Next.After(limit)
	}
	if !ok {
		t.Fatalf("%#v\nat %s: got next %s, want %s (zero: none up to %s)", c, now.In(c.clock.loc), state.Next, next.In(c.clock.loc), known)
	}
	if !state.Next.IsZero() && state.Next.Location() != c.clock.loc {
		t.Fatalf("%#v\nat %s: next %s is not in the schedule's zone", c, now, state.Next)
	}
}

// uniform is a number from 0 up to n. Rapid's own integers prefer small ones,
// with which most zones would hardly be seen.
func uniform(t *rapid.T, n int) int {
	return rapid.Custom(func(t *rapid.T) int {
		var x uint64
		for range bits.Len(uint(n)) + 4 {
			x <<= 1
			if rapid.Bool().Draw(t, "") {
				x |= 1
			}
		}
		return int(x % uint64(n))
	}).Draw(t, "")
}

func among[V any](t *rapid.T, list ...V) V { return rapid.SampledFrom(list).Draw(t, "") }

// uniformTime is a time from a to b, to the nanosecond, or to the minute.
func uniformTime(t *rapid.T, a, b time.Time) time.Time {
	at := a.Add(time.Duration(uniform(t, int(b.Sub(a)))))
	if among(t, true, false) {
		at = at.Truncate(time.Minute)
	}
	return at
}

// drawPlace prefers clock changes, and among them the rare kinds.
func drawPlace(t *rapid.T, z *refZones) refPlace {
	name := z.names[uniform(t, len(z.names))]
	var list []refPlace
	switch among(t, "kind", "named", "zone", "any") {
	case "kind":
		list = z.changes[uniform(t, len(z.changes))]
	case "named":
		list = z.of(among(t,
			"America/Santiago", "Asia/Beirut", "Africa/Cairo", "America/Havana", // days without a midnight
			"America/St_Johns",                // at 00:01, up to 2011
			"Australia/Lord_Howe",             // by half an hour
			"Antarctica/Troll",                // by two hours
			"Pacific/Apia", "Pacific/Fakaofo", // no 2011-12-30
			"Africa/Casablanca", // four times a year
		))
	case "zone":
		list = z.of(name)
	}
	if len(list) > 0 {
		return list[uniform(t, len(list))]
	}
	return refPlace{name, uniformTime(t, refBegin, refEnd).In(z.byName[name])}
}

// of is a zone's clock changes.
func (z *refZones) of(name string) []refPlace {
	var list []refPlace
	for _, kind := range z.changes {
		for _, p := range kind {
			if p.zone == name {
				list = append(list, p)
			}
		}
	}
	return list
}

// drawer draws schedules whose dates and times are near a place.
type drawer struct {
	*rapid.T
	date, spread int   // dates lie this far from date
	minutes      []int // of the day, that are of interest
	sparse       bool  // few boundaries: a night or two in all, or a day or two
}

func newDrawer(t *rapid.T, at time.Time, spread int) *drawer {
	before, after := refMinute(at.Add(-time.Minute))+1, refMinute(at)
	return &drawer{T: t, date: refDate(at), spread: spread, minutes: []int{before % refDay, after % refDay, (before + after) / 2 % refDay, 0}}
}

// clock is a minute of the day from 0 to latest.
func (d *drawer) clock(latest int) int {
	switch among(d.T, "near", "quarter", "any") {
	case "near":
		return (among(d.T, d.minutes...) + among(d.T, 0, 1, -1, 15, -15, 60, -60) + latest + 1) % (latest + 1)
	case "quarter":
		return uniform(d.T, latest/15+1) * 15
	}
	return uniform(d.T, latest+1)
}

func (d *drawer) drawDate() int { return d.date - d.spread + uniform(d.T, 2*d.spread+1) }

// add puts some days into a set and returns the tokens that say so.
func (d *drawer) add(set *refDays) []string {
	day := func() (int, string) {
		i := uniform(d.T, 7)
		name := time.Weekday(i).String()[:3]
		return i, among(d.T, name, strings.ToLower(name), strings.ToUpper(name), strings.ToLower(name[:1])+strings.ToUpper(name[1:]))
	}
	kind := "date"
	if !d.sparse {
		kind = among(d.T, "day", "days", "date", "dates", "age")
	}
	switch kind {
	case "day":
		i, text := day()
		set.weekdays[i] = true
		return []string{text}
	case "days":
		i, from := day()
		last, to := day()
		for ; i != last; i = (i + 1) % 7 {
			set.weekdays[i] = true
		}
		set.weekdays[last] = true
		return []string{from, "-", to}
	case "date":
		date := d.drawDate()
		set.dates = append(set.dates, [2]int{date, date})
		return []string{refDateText(date)}
	case "dates":
		a, b := d.drawDate(), d.drawDate()
		a, b = min(a, b), max(a, b)
		set.dates = append(set.dates, [2]int{a, b})
		return []string{refDateText(a), "/", refDateText(b)}
	}
	date := d.drawDate()
	if among(d.T, true, false) {
		set.dates = append(set.dates, [2]int{refFirstDate, date})
		return []string{"0000-01-01", "/", refDateText(date)}
	}
	set.dates = append(set.dates, [2]int{date, refLastDate})
	return []string{refDateText(date), "/", "9999-12-31"}
}

// window draws items and the tokens of their text.
func (d *drawer) window() (items []refItem, tokens []string) {
	n := among(d.T, 1, 2, 3, 4, 5, 6)
	if d.sparse {
		if among(d.T, false, true) {
			return []refItem{{everyDate: true, start: 0, end: refDay}}, []string{"00:00", "-", "24:00"}
		}
		n = 1
	}
	for ; n > 0; n-- {
		var item refItem
		days := among(d.T, 0, 1, 1, 2, 3)
		if d.sparse {
			days = among(d.T, 1, 2)
		}
		item.everyDate = days == 0
		for i := range days {
			tokens = append(tokens, d.add(&item.days)...)
			if i < days-1 || among(d.T, false, false, true) {
				tokens = append(tokens, ",")
			}
		}
		item.start, item.end = d.clock(refDay-1), d.clock(refDay)
		if among(d.T, false, false, false, true) { // nearly as long as an item can be
			item.end = (item.start + refDay - 1 - uniform(d.T, 60)) % refDay
		}
		if item.end == item.start {
			item.end++
		}
		tokens = append(tokens, refClockText(item.start), "-", refClockText(item.end))
		if n > 1 {
			tokens = append(tokens, ",")
		}
		items = append(items, item)
	}
	return items, tokens
}

// days draws a list of days and the tokens of its text.
func (d *drawer) days() (set refDays, tokens []string) {
	for n := among(d.T, 1, 2, 3); n > 0; n-- {
		tokens = append(tokens, d.add(&set)...)
		if n > 1 {
			tokens = append(tokens, ",")
		}
	}
	return set, tokens
}

// text puts white space, or none, between tokens.
func (d *drawer) text(tokens []string) string {
	space := among(d.T, "", " ", "any")
	if space != "any" {
		return strings.Join(tokens, space)
	}
	var b strings.Builder
	for i, token := range tokens {
		if i > 0 {
			b.WriteString(among(d.T, "", " ", "\t", "\n", "\r\n", " \t  "))
		}
		b.WriteString(token)
	}
	return b.String()
}

// override draws the end of an override: at any time, or where something
// changes anyway.
func (d *drawer) override(c *refCase) (time.Time, string) {
	at := uniformTime(d.T, c.clock.from, c.clock.until)
	if list := c.boundaries(); len(list) > 0 && among(d.T, true, false) {
		at = list[uniform(d.T, len(list))].Add(among(d.T, 0, 1, -1, time.Minute))
	}
	zone := time.FixedZone("", (uniform(d.T, 28*60)-14*60)*60)
	return at, at.In(zone).Format(time.RFC3339Nano)
}

// schedule draws the annotations of a case. The zone is either the default or
// named by an annotation, which finds the machine's own file if it has one.
func (d *drawer) schedule(z *refZones, zone string, clock func(*time.Location) *refClock) *refCase {
	c := &refCase{annotations: map[string]string{AnnotationOn: "true", AnnotationExpected: "3"}}
	loc := z.byName[zone]
	if among(d.T, true, false) {
		var err error
		c.annotations[AnnotationTimezone] = zone
		if loc, err = ParseLocation(zone); err != nil {
			d.Fatalf("zone %s: %v", zone, err)
		}
	}
	c.clock = clock(loc)
	items, tokens := d.window()
	c.items, c.annotations[AnnotationWindow] = items, d.text(tokens)
	if among(d.T, false, d.sparse, true) {
		c.except, tokens = d.days()
		c.annotations[AnnotationExcept] = d.text(tokens)
	}
	if among(d.T, false, false, true) {
		c.wakeDelay = among(d.T,
			time.Duration(uniform(d.T, refDay+1))*time.Minute,
			time.Duration(uniform(d.T, int(refLongestDelay)+1)),
			refLongestDelay-time.Minute, refLongestDelay-1, refLongestDelay)
		c.annotations[AnnotationWakeDelay] = c.wakeDelay.String()
	}
	c.nights = c.union(c.clock)
	overrides := among(d.T, "", "", "", "awake", "asleep", "both")
	if overrides == "awake" || overrides == "both" {
		c.awakeUntil, c.annotations[AnnotationAwakeUntil] = d.override(c)
	}
	if overrides == "asleep" || overrides == "both" {
		c.asleepUntil, c.annotations[AnnotationAsleepUntil] = d.override(c)
	}
	c.parsed = mustParse(d.T, c.annotations, z.byName[zone])
	return c
}

func mustParse(t rapid.TB, annotations map[string]string, loc *time.Location) Schedule {
	t.Helper()
	s, err := ParseSchedule(annotations, Schedule{Location: loc})
	if err != nil {
		t.Fatalf("%q: %v", annotations, err)
	}
	return s
}

// drawCase draws a schedule whose nights lie near a clock change, or anywhere.
func drawCase(z *refZones) *rapid.Generator[*refCase] {
	return rapid.Custom(func(t *rapid.T) *refCase {
		p := drawPlace(t, z)
		return newDrawer(t, p.at, 3).schedule(z, p.zone, func(loc *time.Location) *refClock {
			return walkClock(loc, p.at.AddDate(0, 0, -8), p.at.AddDate(0, 0, 10))
		})
	})
}

// TestPropertyReference: the answer is the reference's, at any instant and on
// both sides of each boundary.
func TestPropertyReference(t *testing.T) {
	z := mustZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(z).Draw(t, "case")
		boundaries := c.boundaries()
		now := uniformTime(t, c.clock.from, c.clock.until)
		c.compare(t, boundaries, now.In(z.byName[z.names[uniform(t, len(z.names))]]))
		for _, b := range boundaries {
			c.compare(t, boundaries, b.Add(-1))
			c.compare(t, boundaries, b)
		}
	})
}

// TestPropertyKinds: around a clock change of each kind, the reference agrees
// on every window between the local times that the change makes special.
func TestPropertyKinds(t *testing.T) {
	z := mustZones(t)
	for _, places := range z.changes {
		p := places[len(places)/2]
		clock := walkClock(z.byName[p.zone], p.at.AddDate(0, 0, -8), p.at.AddDate(0, 0, 7))
		before, after := refMinute(p.at.Add(-time.Minute))+1, refMinute(p.at)
		minutes := []int{0, 1, refDay - 2, refDay - 1}
		for _, m := range []int{before - 1, before, before + 1, (before + after) / 2, after - 1, after, after + 1} {
			minutes = append(minutes, m%refDay)
		}
		slices.Sort(minutes)
		minutes = slices.Compact(minutes)
		for _, start := range minutes {
			for _, end := range append(minutes, refDay) {
				if end == start {
					continue
				}
				items := []refItem{{everyDate: true, start: start, end: end}}
				for date := before/refDay - 2; date <= before/refDay+1; date++ {
					items = append(items, refItem{start: start, end: end, days: refDays{dates: [][2]int{{date, date}}}})
				}
				for _, item := range items {
					// The delay that reaches farthest, and yet not a day: 23:59 and a
					// change of the clock may be more than a date.
					for _, delay := range []time.Duration{0, refLongestDelay - time.Minute} {
						c := newCase(t, clock, delay, item)
						boundaries := c.boundaries()
						c.compare(t, boundaries, clock.from)
						for _, b := range boundaries {
							if b.Sub(p.at).Abs() < 72*time.Hour {
								c.compare(t, boundaries, b.Add(-1))
								c.compare(t, boundaries, b)
							}
						}
					}
				}
			}
		}
	}
}

// newCase is the case of one item.
func newCase(t rapid.TB, clock *refClock, delay time.Duration, item refItem) *refCase {
	t.Helper()
	window := refClockText(item.start) + "-" + refClockText(item.end)
	if !item.everyDate {
		window = refDateText(item.days.dates[0][0]) + "/" + refDateText(item.days.dates[0][1]) + " " + window
	}
	c := &refCase{
		annotations: map[string]string{AnnotationOn: "true", AnnotationExpected: "3", AnnotationWindow: window, AnnotationWakeDelay: delay.String()},
		refSchedule: refSchedule{items: []refItem{item}, wakeDelay: delay},
		clock:       clock,
	}
	c.nights = c.union(clock)
	c.parsed = mustParse(t, c.annotations, clock.loc)
	return c
}

// refYears are stretches long enough to see to the horizon.
var refYears = []refPlace{
	{"Europe/Berlin", time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Pacific/Apia", time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"America/Santiago", time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"America/St_Johns", time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Antarctica/Troll", time.Date(2039, 1, 1, 0, 0, 0, 0, time.UTC)},
}

// TestPropertyHorizon: the answer is the reference's over a whole year, and
// what lies beyond 366 days is not told.
func TestPropertyHorizon(t *testing.T) {
	z := mustZones(t)
	clocks := map[*time.Location]*refClock{} // walking through a year takes a while
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Custom(func(t *rapid.T) *refCase {
			year := among(t, refYears...)
			d := newDrawer(t, year.at.AddDate(0, 7, 0), 230)
			d.sparse = among(t, true, false)
			return d.schedule(z, year.zone, func(loc *time.Location) *refClock {
				if clocks[loc] == nil {
					clocks[loc] = walkClock(loc, year.at.AddDate(0, 0, -8), year.at.AddDate(1, 3, 0))
				}
				return clocks[loc]
			})
		}).Draw(t, "case")
		boundaries := c.boundaries()
		c.compare(t, boundaries, uniformTime(t, c.clock.from, c.clock.until))
		var late []time.Time
		for _, b := range boundaries {
			if now := b.Add(-refHorizon); !now.Before(c.clock.from) {
				late = append(late, now)
			}
		}
		for range min(len(late), 5) {
			now := late[uniform(t, len(late))]
			for _, now := range []time.Time{now.Add(-1), now, now.Add(1)} {
				if !now.Before(c.clock.from) {
					c.compare(t, boundaries, now)
				}
			}
		}
	})
}

// TestPropertyNext: the next boundary lies ahead, nothing changes before it,
// and there it does.
func TestPropertyNext(t *testing.T) {
	z := mustZones(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(z).Draw(t, "case")
		now := uniformTime(t, c.clock.from, c.clock.until)
		for range 5 {
			state, err := c.parsed.At(now)
			until := state.Next
			if until.IsZero() {
				until = now.Add(refHorizon + 1)
			}
			if !until.After(now) || until.After(now.Add(refHorizon+1)) {
				t.Fatalf("at %s: next is %s", now, state.Next)
			}
			for _, at := range []time.Time{now.Add(1), uniformTime(t, now, until), uniformTime(t, now, until), until.Add(-time.Second), until.Add(-1)} {
				if at.Before(now) || !at.Before(until) {
					continue
				}
				got, gotErr := c.parsed.At(at)
				ok := got.Asleep == state.Asleep && (err == nil) == (gotErr == nil)
				if state.Next.IsZero() {
					ok = ok && (got.Next.IsZero() || !got.Next.Before(until))
				} else {
					ok = ok && got.Next.Equal(until)
				}
				if !ok {
					t.Fatalf("at %s: %+v, error %v; but at %s: %+v, error %v", now, state, err, at, got, gotErr)
				}
			}
			if state.Next.IsZero() {
				break
			}
			now = state.Next
			got, gotErr := c.parsed.At(now)
			if gotErr != nil || err == nil && got.Asleep == state.Asleep {
				t.Fatalf("the next boundary is %s, but there: %+v, error %v", now, got, gotErr)
			}
		}
	})
}

// checkNights walks from boundary to boundary of a plain daily window. On every
// date that the clock shows, a night must start once and one must end once, at
// the local times of the window, or where clocks jump over these.
func checkNights(t rapid.TB, loc *time.Location, start, end int, from, to time.Time) {
	t.Helper()
	window := refClockText(start) + "-" + refClockText(end)
	s := mustParse(t, map[string]string{AnnotationOn: "true", AnnotationExpected: "3", AnnotationWindow: window}, loc)
	starts, ends := map[int]int{}, map[int]int{}
	state, err := s.At(from)
	for at := from; err == nil && at.Before(to); {
		next := state.Next
		if !next.After(at) {
			t.Fatalf("%s %s: at %s, next is %s", loc, window, at.In(loc), next)
		}
		count, minute := starts, start
		if state.Asleep {
			count, minute = ends, end%refDay
		}
		local := refMinute(next.In(loc))
		date := local / refDay
		if local%refDay < minute {
			date--
		}
		if before := refMinute(next.Add(-1).In(loc)); before >= date*refDay+minute {
			t.Fatalf("%s %s: a boundary at %s", loc, window, next)
		}
		count[date]++
		was := state.Asleep
		if state, err = s.At(next); state.Asleep == was {
			t.Fatalf("%s %s: no boundary at %s", loc, window, next)
		}
		at = next
	}
	if err != nil {
		t.Fatalf("%s %s: %v", loc, window, err)
	}
	// At either end of the walk a date may be cut off.
	last := to.Add(-48 * time.Hour)
	for at := from.Add(48 * time.Hour); at.Before(last); at = at.Add(30 * time.Minute) {
		if date := refDate(at.In(loc)); starts[date] != 1 || ends[date] != 1 {
			t.Fatalf("%s %s: on %s %d nights start and %d end", loc, window, refDateText(date), starts[date], ends[date])
		}
	}
}

func refClockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// TestPropertyNights: a plain daily window has its nights once each, over the
// weeks around a clock change.
func TestPropertyNights(t *testing.T) {
	z := mustZones(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlace(t, z)
		// Neither nights nor days so short that a clock change can swallow them.
		start := newDrawer(t, p.at, 0).clock(refDay - 1)
		end := (start + 4*60 + uniform(t, 16*60)) % refDay
		if among(t, false, true) {
			start, end = end, start
		}
		if end == 0 && among(t, false, true) {
			end = refDay
		}
		before, after := 4+uniform(t, 20), 4+uniform(t, 20)
		checkNights(t, z.byName[p.zone], start, end, p.at.AddDate(0, 0, -before), p.at.AddDate(0, 0, after))
	})
}

// TestPropertyEveryChange: no clock change of any zone doubles a night or loses
// one.
func TestPropertyEveryChange(t *testing.T) {
	z := mustZones(t)
	n := 0
	for _, places := range z.changes {
		for _, p := range places {
			before, after := refMinute(p.at.Add(-time.Minute))+1, refMinute(p.at)
			minutes := []int{before, after, before - 1, after - 1, (before + after) / 2, 0, before + 1, after + 1}
			start := minutes[n%len(minutes)] % refDay
			end := (start + []int{4, 10, 20}[n%3]*60) % refDay
			if n/len(minutes)%2 == 1 {
				start, end = end, start
			}
			n++
			checkNights(t, z.byName[p.zone], start, end, p.at.Add(-72*time.Hour), p.at.Add(72*time.Hour))
		}
	}
}

// TestPropertyParse: what is parsed is what the text says, and prints as
// something that means the same.
func TestPropertyParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawer(t, uniformTime(t, refBegin, refEnd), among(t, 3, 400))
		dates := []int{refFirstDate, refLastDate}
		for date := d.date - 10; date <= d.date+10; date++ {
			dates = append(dates, date, d.date-d.spread+uniform(t, 2*d.spread+1))
		}

		items, tokens := d.window()
		text := d.text(tokens)
		w, err := ParseWindow(text)
		if err != nil || w.len() != len(items) {
			t.Fatalf("window %q: got %d items, error %v; want %d items", text, w.len(), err, len(items))
		}
		for i := range items {
			want, got := &items[i], w.item(i)
			if int(got.start) != want.start || int(got.end) != want.end {
				t.Fatalf("window %q: item %d is %+v, want %+v", text, i, got, want)
			}
			for _, n := range dates {
				if got.days.include(date(n)) != want.has(n) {
					t.Fatalf("window %q: item %d on %s: got %v", text, i, refDateText(n), !want.has(n))
				}
			}
		}
		if again, err := ParseWindow(w.String()); err != nil || !reflect.DeepEqual(again, w) {
			t.Fatalf("window %q prints as %q, which reads as %+v, error %v; want %+v", text, w.String(), again, err, w)
		}

		set, dayTokens := d.days()
		dayText := d.text(dayTokens)
		days, err := ParseDays(dayText)
		if err != nil {
			t.Fatalf("days %q: %v", dayText, err)
		}
		for _, n := range dates {
			if days.include(date(n)) != set.has(n) {
				t.Fatalf("days %q on %s: got %v", dayText, refDateText(n), !set.has(n))
			}
		}
		if again, err := ParseDays(days.String()); err != nil || !reflect.DeepEqual(again, days) {
			t.Fatalf("days %q print as %q, which reads as %+v, error %v; want %+v", dayText, days.String(), again, err, days)
		}

		space := among(t, " ", "\t", "\n", "\r")
		for _, wrong := range []string{space + text, text + space, text + ",", "," + text, text + "," + dayText} {
			if _, err := ParseWindow(wrong); err == nil {
				t.Fatalf("window %q was accepted", wrong)
			}
		}
		for _, wrong := range []string{space + dayText, dayText + space, dayText + ",", "," + dayText, dayText + "," + text} {
			if _, err := ParseDays(wrong); err == nil {
				t.Fatalf("days %q were accepted", wrong)
			}
		}
	})
}

// TestPropertyZones: every zone's name is a legal annotation.
func TestPropertyZones(t *testing.T) {
	for _, name := range mustZones(t).names {
		if loc, err := ParseLocation(name); err != nil || loc.String() != name {
			t.Errorf("zone %q: got %v, error %v", name, loc, err)
		}
	}
}
