// Package nighttest has a reference for schedules that shares no code with package night:
// a schedule is drawn as plain numbers and its text is written from them, and what a
// zone's clock does is learnt by looking at it once a minute.
package nighttest

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"schedule-night/internal/night"
)

// What the language allows, as numbers of its own.
const (
	MinutesPerDay = 24 * 60
	LongestDelay  = 24 * time.Hour
	Horizon       = 366 * 24 * time.Hour
	FirstDate     = -719528 // that can be written, in days since 1970-01-01
	LastDate      = 2932896
)

// Begin and End are between which the clocks of all zones are looked at.
var (
	Begin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	End   = time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Zones is all that the toolchain's database has. time.LoadLocation prefers the
// system's files, which may be of another release.
type Zones struct {
	Names  []string
	ByName map[string]*time.Location
	// Changes are those of 2000 to 2040, one list for each kind: how far the
	// clock moves, and at which local time. Who draws a list first sees the
	// rare kinds as often as the common ones.
	Changes [][]Place
}

// Place is an instant to look at in a zone.
type Place struct {
	Zone string
	At   time.Time
}

var loadZones = sync.OnceValues(func() (*Zones, error) {
	// The program's own: the toolchain that runs the test may have another release of it.
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("the folder of this file is not known")
	}
	archive, err := zip.OpenReader(filepath.Join(filepath.Dir(file), "..", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	z := &Zones{ByName: map[string]*time.Location{}}
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
		z.Names = append(z.Names, file.Name)
		z.ByName[file.Name] = loc
	}
	slices.Sort(z.Names)

	type kind struct{ shift, minute int }
	lists := map[kind]int{}
	for _, name := range z.Names {
		for at := Begin.In(z.ByName[name]); at.Before(End); {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			if !end.After(at) { // to ZoneBounds, a year that only a rule covers has 365 days
				at = at.Add(24 * time.Hour)
				continue
			}
			before, after := Minute(end.Add(-time.Minute))+1, Minute(end)
			if before != after && end.Before(End) {
				if _, offset := end.Zone(); offset%60 != 0 || end.Second() != 0 {
					return nil, fmt.Errorf("zone %s: seconds matter at %s, and the reference steps by the minute", name, end)
				}
				k := kind{after - before, before % MinutesPerDay}
				if _, ok := lists[k]; !ok {
					lists[k] = len(z.Changes)
					z.Changes = append(z.Changes, nil)
				}
				z.Changes[lists[k]] = append(z.Changes[lists[k]], Place{name, end})
			}
			at = end
		}
	}
	if len(z.Names) < 400 || len(z.Changes) < 20 {
		return nil, fmt.Errorf("%d zones and %d kinds of clock changes cannot be all", len(z.Names), len(z.Changes))
	}
	return z, nil
})

// LoadZones reads the zones, once for all tests.
func LoadZones(t *testing.T) *Zones {
	t.Helper()
	z, err := loadZones()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Minute is what the local clock shows, in minutes since the local time
// 1970-01-01 00:00.
func Minute(at time.Time) int {
	hour, minute, _ := at.Clock()
	return Date(at)*MinutesPerDay + hour*60 + minute
}

// Date is the date that the local clock shows, in days since 1970-01-01.
func Date(at time.Time) int {
	year, month, day := at.Date()
	return int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

// DateText is the date in the language, in days since 1970-01-01.
func DateText(date int) string {
	return time.Date(1970, 1, 1+date, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// Clock is what a walk from minute to minute has seen of a zone's clock.
type Clock struct {
	loc     *time.Location
	base    int           // the local minute at index 0 of shown
	shown   []int32       // when the clock first showed a local minute, in minutes since 1970; 0 is never
	skipped map[int]int32 // when the clock first jumped over a local minute
	// The nights that start on the dates from first to last can be told from
	// the walk, and no others reach between from and until.
	first, last int
	From, Until time.Time
}

// WalkClock looks at a zone's clock once a minute.
func WalkClock(loc *time.Location, from, to time.Time) *Clock {
	from, to = from.In(loc).Truncate(time.Minute), to.In(loc)
	previous := Minute(from) - 1
	c := &Clock{loc: loc, base: previous - MinutesPerDay, skipped: map[int]int32{}}
	c.shown = make([]int32, int(to.Sub(from)/time.Minute)+4*MinutesPerDay)
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		now, local := int32(at.Unix()/60), Minute(at)
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
	c.first, c.last = Date(from)+2, Date(to)-3
	c.From = c.instant((c.first + 1) * MinutesPerDay).Add(LongestDelay)
	c.Until = c.instant((c.last + 1) * MinutesPerDay)
	return c
}

// instant is when a local time happens: when the clock first shows it, or else
// when the gap that swallows it ends.
func (c *Clock) instant(local int) time.Time {
	minutes := c.shown[local-c.base]
	if minutes == 0 {
		minutes = c.skipped[local]
	}
	if minutes == 0 {
		panic(fmt.Sprintf("%s: the walk has not seen local minute %d", c.loc, local))
	}
	return time.Unix(int64(minutes)*60, 0).In(c.loc)
}

// Days is a set of days.
type Days struct {
	weekdays [7]bool  // by time.Weekday
	Dates    [][2]int // from, to
}

// Has tells whether the date is in the set.
func (d *Days) Has(date int) bool {
	if d.weekdays[time.Date(1970, 1, 1+date, 0, 0, 0, 0, time.UTC).Weekday()] {
		return true
	}
	return slices.ContainsFunc(d.Dates, func(r [2]int) bool { return r[0] <= date && date <= r[1] })
}

// Item is an item of a window, in minutes of the day.
type Item struct {
	EveryDate  bool
	Days       Days
	Start, End int
}

// Has tells whether the item applies on the date.
func (i *Item) Has(date int) bool { return i.EveryDate || i.Days.Has(date) }

// Schedule is a schedule as the annotations mean it.
type Schedule struct {
	items                   []Item
	except                  Days
	wakeDelay               time.Duration
	AwakeUntil, AsleepUntil time.Time
}

// Span is a half-open interval.
type Span struct{ start, end time.Time }

// union is the union of the nights of the clock's dates, as intervals in order
// that do not touch.
func (r *Schedule) union(c *Clock) []Span {
	var all, union []Span
	for date := c.first; date <= c.last; date++ {
		if r.except.Has(date) {
			continue
		}
		for i := range r.items {
			item := &r.items[i]
			if !item.Has(date) {
				continue
			}
			endDate := date
			if item.End <= item.Start {
				endDate++
			}
			night := Span{c.instant(date*MinutesPerDay + item.Start), c.instant(endDate*MinutesPerDay + item.End)}
			if night.start.Before(night.end) {
				// A delay prolongs a night that was slept, to its end at least.
				if night.end.After(r.AwakeUntil) {
					night.end = night.end.Add(r.wakeDelay)
				}
				all = append(all, night)
			}
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return a.start.Compare(b.start) })
	for _, night := range all {
		if n := len(union) - 1; n < 0 || union[n].end.Before(night.start) {
			union = append(union, night)
		} else if union[n].end.Before(night.end) {
			union[n].end = night.end
		}
	}
	return union
}

// Case is a schedule twice: as parsed from annotations and as the reference
// understands it.
type Case struct {
	Annotations map[string]string
	Parsed      night.Schedule
	Schedule
	Clock  *Clock
	nights []Span
}

// GoString is how rapid shows the case.
func (c *Case) GoString() string {
	return fmt.Sprintf("%s %q", c.Parsed.Location, c.Annotations)
}

// Asleep is the reference's answer.
func (c *Case) Asleep(at time.Time) bool {
	switch {
	case c.AwakeUntil.After(at):
		return false
	case c.AsleepUntil.After(at):
		return true
	}
	return slices.ContainsFunc(c.nights, func(n Span) bool { return !at.Before(n.start) && at.Before(n.end) })
}

// Delayed tells whether it is a wake delay alone that makes the reference's answer asleep.
func (c *Case) Delayed(at time.Time) bool {
	if !c.Asleep(at) || c.AsleepUntil.After(at) {
		return false
	}
	plain := *c
	plain.wakeDelay = 0
	plain.nights = plain.union(c.Clock)
	return !plain.Asleep(at)
}

// Boundaries are the instants, in order, at which the answer may change.
func (c *Case) Boundaries() []time.Time {
	list := []time.Time{c.AwakeUntil, c.AsleepUntil}
	for _, n := range c.nights {
		list = append(list, n.start, n.end)
	}
	list = slices.DeleteFunc(list, func(at time.Time) bool { return at.Before(c.Clock.From) || !at.Before(c.Clock.Until) })
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// Compare holds the parsed schedule's answer at an instant against the
// reference's.
func (c *Case) Compare(t rapid.TB, boundaries []time.Time, now time.Time) {
	t.Helper()
	state, err := c.Parsed.At(now)
	if c.AwakeUntil.After(now) && c.AsleepUntil.After(now) {
		first := c.AwakeUntil
		if c.AsleepUntil.Before(first) {
			first = c.AsleepUntil
		}
		if first.After(now.Add(Horizon)) {
			first = time.Time{}
		}
		if err == nil || !state.Next.Equal(first) {
			t.Fatalf("%#v\nat %s, with both overrides ahead: got %+v, error %v; want an error until %s", c, now, state, err, first)
		}
		return
	}
	asleep, override := c.Asleep(now), c.AwakeUntil.After(now) || c.AsleepUntil.After(now)
	if err != nil || state.Asleep != asleep || state.Override != override {
		t.Fatalf("%#v\nat %s: got %+v, error %v; want asleep=%v override=%v", c, now.In(c.Clock.loc), state, err, asleep, override)
	}
	limit, known := now.Add(Horizon), c.Clock.Until
	var next time.Time
	for _, b := range boundaries {
		if b.After(now) && c.Asleep(b) != asleep {
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
		t.Fatalf("%#v\nat %s: got next %s, want %s (zero: none up to %s)", c, now.In(c.Clock.loc), state.Next, next.In(c.Clock.loc), known)
	}
	if !state.Next.IsZero() && state.Next.Location() != c.Clock.loc {
		t.Fatalf("%#v\nat %s: next %s is not in the schedule's zone", c, now, state.Next)
	}
}

// Uniform is a number from 0 up to n. Rapid's own integers prefer small ones,
// with which most zones would hardly be seen.
func Uniform(t *rapid.T, n int) int {
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

// Among draws one of the list.
func Among[V any](t *rapid.T, list ...V) V { return rapid.SampledFrom(list).Draw(t, "") }

// UniformTime is a time from a to b, to the nanosecond, or to the minute.
func UniformTime(t *rapid.T, a, b time.Time) time.Time {
	at := a.Add(time.Duration(Uniform(t, int(b.Sub(a)))))
	if Among(t, true, false) {
		at = at.Truncate(time.Minute)
	}
	return at
}

// DrawPlace prefers clock changes, and among them the rare kinds.
func DrawPlace(t *rapid.T, z *Zones) Place {
	name := z.Names[Uniform(t, len(z.Names))]
	var list []Place
	switch Among(t, "kind", "named", "zone", "any") {
	case "kind":
		list = z.Changes[Uniform(t, len(z.Changes))]
	case "named":
		list = z.of(Among(t,
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
		return list[Uniform(t, len(list))]
	}
	return Place{name, UniformTime(t, Begin, End).In(z.ByName[name])}
}

// of is a zone's clock changes.
func (z *Zones) of(name string) []Place {
	var list []Place
	for _, kind := range z.Changes {
		for _, p := range kind {
			if p.Zone == name {
				list = append(list, p)
			}
		}
	}
	return list
}

// drawer draws schedules whose dates and times are near a place.
type drawer struct {
	*rapid.T
	Date, Spread int   // dates lie this far from date
	minutes      []int // of the day, that are of interest
	Sparse       bool  // few boundaries: a night or two in all, or a day or two
	Crowded      bool  // more items than anybody writes by hand
}

// NewDrawer draws dates near an instant, at most spread days away.
func NewDrawer(t *rapid.T, at time.Time, spread int) *drawer {
	before, after := Minute(at.Add(-time.Minute))+1, Minute(at)
	return &drawer{T: t, Date: Date(at), Spread: spread, minutes: []int{before % MinutesPerDay, after % MinutesPerDay, (before + after) / 2 % MinutesPerDay, 0}}
}

// Clock is a minute of the day from 0 to latest.
func (d *drawer) Clock(latest int) int {
	switch Among(d.T, "near", "quarter", "any") {
	case "near":
		return (Among(d.T, d.minutes...) + Among(d.T, 0, 1, -1, 15, -15, 60, -60) + latest + 1) % (latest + 1)
	case "quarter":
		return Uniform(d.T, latest/15+1) * 15
	}
	return Uniform(d.T, latest+1)
}

func (d *drawer) drawDate() int { return d.Date - d.Spread + Uniform(d.T, 2*d.Spread+1) }

// add puts some days into a set and returns the tokens that say so.
func (d *drawer) add(set *Days) []string {
	day := func() (int, string) {
		i := Uniform(d.T, 7)
		name := time.Weekday(i).String()[:3]
		return i, Among(d.T, name, strings.ToLower(name), strings.ToUpper(name), strings.ToLower(name[:1])+strings.ToUpper(name[1:]))
	}
	kind := "date"
	if !d.Sparse {
		kind = Among(d.T, "day", "days", "date", "dates", "age")
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
		set.Dates = append(set.Dates, [2]int{date, date})
		return []string{DateText(date)}
	case "dates":
		a, b := d.drawDate(), d.drawDate()
		a, b = min(a, b), max(a, b)
		set.Dates = append(set.Dates, [2]int{a, b})
		return []string{DateText(a), "/", DateText(b)}
	}
	date := d.drawDate()
	if Among(d.T, true, false) {
		set.Dates = append(set.Dates, [2]int{FirstDate, date})
		return []string{"0000-01-01", "/", DateText(date)}
	}
	set.Dates = append(set.Dates, [2]int{date, LastDate})
	return []string{DateText(date), "/", "9999-12-31"}
}

// Window draws items and the tokens of their text.
func (d *drawer) Window() (items []Item, tokens []string) {
	n := Among(d.T, 1, 2, 3, 4, 5, 6)
	if d.Sparse {
		if Among(d.T, false, true) {
			return []Item{{EveryDate: true, Start: 0, End: MinutesPerDay}}, []string{"00:00", "-", "24:00"}
		}
		n = 1
	}
	for ; n > 0; n-- {
		var item Item
		days := Among(d.T, 0, 1, 1, 2, 3)
		if d.Sparse {
			days = Among(d.T, 1, 2)
		}
		item.EveryDate = days == 0
		for i := range days {
			tokens = append(tokens, d.add(&item.Days)...)
			if i < days-1 || Among(d.T, false, false, true) {
				tokens = append(tokens, ",")
			}
		}
		item.Start, item.End = d.Clock(MinutesPerDay-1), d.Clock(MinutesPerDay)
		if Among(d.T, false, false, false, true) { // nearly as long as an item can be
			item.End = (item.Start + MinutesPerDay - 1 - Uniform(d.T, 60)) % MinutesPerDay
		}
		if item.End == item.Start {
			item.End++
		}
		tokens = append(tokens, ClockText(item.Start), "-", ClockText(item.End))
		if n > 1 {
			tokens = append(tokens, ",")
		}
		items = append(items, item)
	}
	return items, tokens
}

// Days draws a list of days and the tokens of its text.
func (d *drawer) Days() (set Days, tokens []string) {
	for n := Among(d.T, 1, 2, 3); n > 0; n-- {
		tokens = append(tokens, d.add(&set)...)
		if n > 1 {
			tokens = append(tokens, ",")
		}
	}
	return set, tokens
}

// Text puts white space, or none, between tokens.
func (d *drawer) Text(tokens []string) string {
	space := Among(d.T, "", " ", "any")
	if space != "any" {
		return strings.Join(tokens, space)
	}
	var b strings.Builder
	for i, token := range tokens {
		if i > 0 {
			b.WriteString(Among(d.T, "", " ", "\t", "\n", "\r\n", " \t  "))
		}
		b.WriteString(token)
	}
	return b.String()
}

// override draws the end of an override: at any time, or where something
// changes anyway.
func (d *drawer) override(c *Case) (time.Time, string) {
	at := UniformTime(d.T, c.Clock.From, c.Clock.Until)
	delay := c.wakeDelay
	if Among(d.T, true, false) { // where something changes, or would without a delay
		c.wakeDelay = 0
	}
	c.nights = c.union(c.Clock)
	if list := c.Boundaries(); len(list) > 0 && Among(d.T, true, false) {
		at = list[Uniform(d.T, len(list))].Add(Among(d.T, 0, 1, -1, time.Minute))
	}
	c.wakeDelay = delay
	zone := time.FixedZone("", (Uniform(d.T, 28*60)-14*60)*60)
	return at, at.In(zone).Format(time.RFC3339Nano)
}

// Schedule draws the annotations of a case. The zone is either the default or
// named by an annotation, which finds the program's own copy.
func (d *drawer) Schedule(z *Zones, zone string, clock func(*time.Location) *Clock) *Case {
	c := &Case{Annotations: map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3"}}
	loc := z.ByName[zone]
	if Among(d.T, true, false) {
		var err error
		c.Annotations[night.AnnotationTimezone] = zone
		if loc, err = night.ParseLocation(zone); err != nil {
			d.Fatalf("zone %s: %v", zone, err)
		}
	}
	c.Clock = clock(loc)
	items, tokens := d.Window()
	for d.Crowded && len(items) < 10 {
		more, moreTokens := d.Window()
		items, tokens = append(items, more...), append(append(tokens, ","), moreTokens...)
	}
	c.items, c.Annotations[night.AnnotationWindow] = items, d.Text(tokens)
	if Among(d.T, false, d.Sparse, true) {
		c.except, tokens = d.Days()
		c.Annotations[night.AnnotationExcept] = d.Text(tokens)
	}
	if Among(d.T, false, false, true) {
		c.wakeDelay = Among(d.T,
			time.Duration(Uniform(d.T, MinutesPerDay+1))*time.Minute,
			time.Duration(Uniform(d.T, int(LongestDelay)+1)),
			LongestDelay-time.Minute, LongestDelay-1, LongestDelay)
		c.Annotations[night.AnnotationWakeDelay] = c.wakeDelay.String()
	}
	overrides := Among(d.T, "", "", "", "awake", "asleep", "both")
	if overrides == "awake" || overrides == "both" {
		c.AwakeUntil, c.Annotations[night.AnnotationAwakeUntil] = d.override(c)
	}
	if overrides == "asleep" || overrides == "both" {
		c.AsleepUntil, c.Annotations[night.AnnotationAsleepUntil] = d.override(c)
	}
	c.nights = c.union(c.Clock)
	c.Parsed = Parse(d.T, c.Annotations, z.ByName[zone])
	return c
}

// Parse reads annotations over nothing but a zone.
func Parse(t rapid.TB, annotations map[string]string, loc *time.Location) night.Schedule {
	t.Helper()
	s, err := night.ParseSchedule(annotations, night.Schedule{Location: loc})
	if err != nil {
		t.Fatalf("%q: %v", annotations, err)
	}
	return s
}

// DrawCase draws a schedule whose nights lie near a clock change, or anywhere.
func DrawCase(z *Zones) *rapid.Generator[*Case] {
	return rapid.Custom(func(t *rapid.T) *Case {
		p := DrawPlace(t, z)
		d := NewDrawer(t, p.At, 3)
		d.Crowded = Among(t, false, false, false, false, true)
		return d.Schedule(z, p.Zone, func(loc *time.Location) *Clock {
			return WalkClock(loc, p.At.AddDate(0, 0, -8), p.At.AddDate(0, 0, 10))
		})
	})
}

// NewCase is the case of one item.
func NewCase(t rapid.TB, clock *Clock, delay time.Duration, item Item) *Case {
	t.Helper()
	window := ClockText(item.Start) + "-" + ClockText(item.End)
	if !item.EveryDate {
		window = DateText(item.Days.Dates[0][0]) + "/" + DateText(item.Days.Dates[0][1]) + " " + window
	}
	c := &Case{
		Annotations: map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3", night.AnnotationWindow: window, night.AnnotationWakeDelay: delay.String()},
		Schedule:    Schedule{items: []Item{item}, wakeDelay: delay},
		Clock:       clock,
	}
	c.nights = c.union(clock)
	c.Parsed = Parse(t, c.Annotations, clock.loc)
	return c
}

// Years are stretches long enough to see to the horizon.
var Years = []Place{
	{"Europe/Berlin", time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Pacific/Apia", time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"America/Santiago", time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"America/St_Johns", time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Antarctica/Troll", time.Date(2039, 1, 1, 0, 0, 0, 0, time.UTC)},
}

// CheckNights walks from boundary to boundary of a plain daily window. On every
// date that the clock shows, a night must start once and one must end once, at
// the local times of the window, or where clocks jump over these.
func CheckNights(t rapid.TB, loc *time.Location, start, end int, from, to time.Time) {
	t.Helper()
	window := ClockText(start) + "-" + ClockText(end)
	s := Parse(t, map[string]string{night.AnnotationOn: "true", night.AnnotationExpected: "3", night.AnnotationWindow: window}, loc)
	starts, ends := map[int]int{}, map[int]int{}
	state, err := s.At(from)
	for at := from; err == nil && at.Before(to); {
		next := state.Next
		if !next.After(at) {
			t.Fatalf("%s %s: at %s, next is %s", loc, window, at.In(loc), next)
		}
		count, minute := starts, start
		if state.Asleep {
			count, minute = ends, end%MinutesPerDay
		}
		local := Minute(next.In(loc))
		date := local / MinutesPerDay
		if local%MinutesPerDay < minute {
			date--
		}
		if before := Minute(next.Add(-1).In(loc)); before >= date*MinutesPerDay+minute {
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
		if date := Date(at.In(loc)); starts[date] != 1 || ends[date] != 1 {
			t.Fatalf("%s %s: on %s %d nights start and %d end", loc, window, DateText(date), starts[date], ends[date])
		}
	}
}

// ClockText is a minute of the day in the language.
func ClockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// Defaults are the flags' defaults, as a Schedule.
func Defaults(t testing.TB) night.Schedule {
	window, err := night.ParseWindow("21:00-07:00")
	if err != nil {
		t.Fatal(err)
	}
	return night.Schedule{Window: window, Location: time.UTC}
}

// ReadCases reads the rows of a tab-separated file under its heading. If the
// environment variable names another file of the same form, its rows follow.
func ReadCases(t *testing.T, file, env, heading string) [][]string {
	t.Helper()
	files := []string{file}
	if extra := os.Getenv(env); extra != "" {
		files = append(files, extra)
	}
	var rows [][]string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if lines[0] != heading {
			t.Fatalf("%s: heading %q, want %q", file, lines[0], heading)
		}
		for _, line := range lines[1:] {
			row := strings.Split(line, "\t")
			if len(row) != strings.Count(heading, "\t")+1 {
				t.Fatalf("%s: row %q has %d columns", file, line, len(row))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Time reads an RFC 3339 time.
func Time(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
