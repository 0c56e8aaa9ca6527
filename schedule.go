package main

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The annotations that a user writes on a Deployment. AnnotationOn opts in;
// the others describe its nights and fall back to the controller's flags,
// except AnnotationExpected, which has no default.
const (
	annotationPrefix = "schedule-night.svc/"

	AnnotationOn            = annotationPrefix + "on"             // strconv.ParseBool
	AnnotationExpected      = annotationPrefix + "expected"       // replicas in the day
	AnnotationWindow        = annotationPrefix + "window"         // see ParseWindow
	AnnotationTimezone      = annotationPrefix + "timezone"       // IANA name
	AnnotationNightReplicas = annotationPrefix + "night-replicas" // replicas in the window
	AnnotationExcept        = annotationPrefix + "except"         // see ParseDays
	AnnotationAwakeUntil    = annotationPrefix + "awake-until"    // RFC 3339
	AnnotationAsleepUntil   = annotationPrefix + "asleep-until"   // RFC 3339
	AnnotationDaytime       = annotationPrefix + "daytime"        // a Daytime
	AnnotationWakeDelay     = annotationPrefix + "wake-delay"     // Go duration
)

// annotationNames are all that the controller reads.
var annotationNames = [...]string{
	AnnotationOn, AnnotationExpected, AnnotationWindow, AnnotationTimezone, AnnotationNightReplicas,
	AnnotationExcept, AnnotationAwakeUntil, AnnotationAsleepUntil, AnnotationDaytime, AnnotationWakeDelay,
}

// Daytime says what the controller does about replicas while a Deployment is
// awake.
type Daytime string

const (
	// DaytimeDefault leaves the choice to the cluster: wake-only where an
	// autoscaler owns the count, else enforce.
	DaytimeDefault Daytime = ""
	// DaytimeEnforce holds the expected count all day.
	DaytimeEnforce Daytime = "enforce"
	// DaytimeWakeOnly sets the expected count once on waking.
	DaytimeWakeOnly Daytime = "wake-only"
)

const (
	// horizon bounds the search for the next boundary. It is a leap year, so
	// that a window on one calendar date a year is always seen coming.
	horizon = 366 * 24 * time.Hour
	// maxWakeDelay bounds how far back At has to look for a night that is
	// still being slept out; a longer delay is a longer window.
	maxWakeDelay = 24 * time.Hour
	// maxText bounds, in bytes, a window or an except. Users come nowhere
	// near it; without it one annotation could keep a worker busy for seconds.
	maxText = 4096
)

// Schedule is what a Deployment's annotations ask for. The zero value is not
// usable: Location and Window must be set. A Schedule made of the controller's
// flags is the default that ParseSchedule starts from.
type Schedule struct {
	On            bool
	Expected      int32 // replicas in the day
	NightReplicas int32 // replicas in the window
	Window        Window
	Location      *time.Location // of Window and Except
	Except        Days           // nights that start on these days do not happen
	AwakeUntil    time.Time      // zero: no override
	AsleepUntil   time.Time      // zero: no override
	Daytime       Daytime
	WakeDelay     time.Duration // added to the end of each night
	WakeStagger   time.Duration // over which the wake-ups of all Deployments are spread; a flag only
}

// State is what a Schedule says about one instant.
type State struct {
	Asleep bool
	// Override is set while awake-until or asleep-until decides, not the window.
	Override bool
	// Next is the first later instant at which Asleep changes, in the
	// Schedule's Location; zero if there is none within 366 days.
	Next time.Time
}

// Replicas is the count that the schedule asks for in the given state.
func (s *Schedule) Replicas(asleep bool) int32 {
	if asleep {
		return s.NightReplicas
	}
	return s.Expected
}

// ParseSchedule reads a Deployment's annotations; what they leave out comes
// from defaults. Without AnnotationOn, or with it false, the result is not On
// and nothing else is looked at. The error names the annotation, its value and
// what would be right; the Schedule is then not to be acted on.
func ParseSchedule(annotations map[string]string, defaults Schedule) (Schedule, error) {
	s := defaults
	s.On = false
	value, ok := annotations[AnnotationOn]
	if !ok {
		return s, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return s, annotationError(AnnotationOn, value, errors.New("want true or false"))
	}
	if !on {
		return s, nil
	}
	s.On = true

	value, ok = annotations[AnnotationExpected]
	if !ok {
		return s, fmt.Errorf(`%s is missing: set it to the replicas wanted in the day, e.g. "3"`, AnnotationExpected)
	}
	if s.Expected, err = ParseReplicas(value); err != nil {
		return s, annotationError(AnnotationExpected, value, err)
	}
	if value, ok = annotations[AnnotationWindow]; ok {
		if s.Window, err = ParseWindow(value); err != nil {
			return s, annotationError(AnnotationWindow, value, err)
		}
	}
	if value, ok = annotations[AnnotationTimezone]; ok {
		if s.Location, err = ParseLocation(value); err != nil {
			s.Location = defaults.Location
			return s, annotationError(AnnotationTimezone, value, err)
		}
	}
	if value, ok = annotations[AnnotationNightReplicas]; ok {
		if s.NightReplicas, err = ParseReplicas(value); err != nil {
			return s, annotationError(AnnotationNightReplicas, value, err)
		}
	}
	if value, ok = annotations[AnnotationExcept]; ok {
		if s.Except, err = ParseDays(value); err != nil {
			return s, annotationError(AnnotationExcept, value, err)
		}
	}
	if value, ok = annotations[AnnotationAwakeUntil]; ok {
		if s.AwakeUntil, err = parseInstant(value); err != nil {
			return s, annotationError(AnnotationAwakeUntil, value, err)
		}
	}
	if value, ok = annotations[AnnotationAsleepUntil]; ok {
		if s.AsleepUntil, err = parseInstant(value); err != nil {
			return s, annotationError(AnnotationAsleepUntil, value, err)
		}
	}
	if value, ok = annotations[AnnotationDaytime]; ok {
		s.Daytime = Daytime(value)
		if s.Daytime != DaytimeEnforce && s.Daytime != DaytimeWakeOnly {
			return s, annotationError(AnnotationDaytime, value, fmt.Errorf("want %s or %s", DaytimeEnforce, DaytimeWakeOnly))
		}
	}
	if value, ok = annotations[AnnotationWakeDelay]; ok {
		if s.WakeDelay, err = time.ParseDuration(value); err != nil || s.WakeDelay < 0 || s.WakeDelay > maxWakeDelay {
			return s, annotationError(AnnotationWakeDelay, value, errors.New("want a duration from 0s to 24h, e.g. 90s, 10m or 1h30m"))
		}
	}
	return s, nil
}

func annotationError(name, value string, err error) error {
	return fmt.Errorf("%s %s: %w", name, quote(value), err)
}

// ParseReplicas reads a number of replicas: decimal digits, 0 to 2147483647,
// the range of spec.replicas.
func ParseReplicas(text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("want replicas as decimal digits alone, 0 to 2147483647")
	}
	return int32(n), nil
}

// parseInstant reads an RFC 3339 time. Of what time.Parse takes beyond that
// standard, a comma for the decimal point and a one-digit hour are refused here.
func parseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, errors.New("want an RFC 3339 time with its offset, e.g. 2026-11-30T02:00:00+01:00 or 2026-11-30T01:00:00Z")
	}
	return t, nil
}

// zones holds the locations that were loaded, by name: time.LoadLocation reads
// and parses a file at each call. Only names that exist are kept.
var zones = struct {
	sync.RWMutex
	byName map[string]*time.Location
}{byName: map[string]*time.Location{}}

// ParseLocation finds the IANA time zone of the given name. The names "" and
// Local, which depend on the machine, are refused.
func ParseLocation(name string) (*time.Location, error) {
	zones.RLock()
	loc := zones.byName[name]
	zones.RUnlock()
	if loc != nil {
		return loc, nil
	}
	// A name that is not clean ("Europe//Berlin") may find a file all the same.
	if name != "" && name != "Local" && name != "localtime" && path.Clean(name) == name {
		if loc, err := time.LoadLocation(name); err == nil {
			zones.Lock()
			zones.byName[strings.Clone(name)] = loc
			zones.Unlock()
			return loc, nil
		}
	}
	return nil, errors.New("want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC")
}

// At tells whether the Deployment is asleep at now and when that changes. It
// fails while both overrides lie ahead: the error then stands until the first
// of them has passed, which is State.Next.
func (s *Schedule) At(now time.Time) (State, error) {
	awake, asleep := s.AwakeUntil.After(now), s.AsleepUntil.After(now)
	switch {
	case awake && asleep:
		next := s.AwakeUntil
		if s.AsleepUntil.Before(next) {
			next = s.AsleepUntil
		}
		return State{Next: next.In(s.Location)}, fmt.Errorf("%s %q and %s %q both lie ahead: remove one of them", AnnotationAwakeUntil,
			s.AwakeUntil.Format(time.RFC3339), AnnotationAsleepUntil, s.AsleepUntil.Format(time.RFC3339))
	case awake:
		return s.overriddenUntil(s.AwakeUntil, false, now), nil
	case asleep:
		return s.overriddenUntil(s.AsleepUntil, true, now), nil
	}
	night, next := s.night(now, now.Add(horizon))
	return State{Asleep: night, Next: next}, nil
}

// overriddenUntil is the state while an override holds: the answer changes when it
// ends, or with the window after that if the window agrees with it until then.
func (s *Schedule) overriddenUntil(end time.Time, asleep bool, now time.Time) State {
	limit := now.Add(horizon)
	night, next := s.night(end, limit)
	if night != asleep {
		next = end.In(s.Location)
	}
	if next.After(limit) {
		next = time.Time{}
	}
	return State{Asleep: asleep, Override: true, Next: next}
}

// night tells whether t lies in one of the window's nights, and the first
// later instant, not after limit, at which that changes (else zero).
func (s *Schedule) night(t, limit time.Time) (bool, time.Time) {
	end := s.nightEnd(t)
	if end.IsZero() {
		return false, s.nextNight(t, limit)
	}
	for { // nights that overlap or touch are one
		if end.After(limit) {
			return true, time.Time{}
		}
		later := s.nightEnd(end)
		if later.IsZero() {
			return true, end
		}
		end = later
	}
}

// nightEnd is the latest end of the nights that t lies in, zero if there is none.
func (s *Schedule) nightEnd(t time.Time) time.Time {
	today := dateOf(t, s.Location)
	// A night that holds t had not ended a wake delay ago, so it started on that
	// day or on the one before. Tomorrow counts while clocks that went back over
	// midnight repeat the end of today.
	first := today - 1
	if s.WakeDelay > 0 {
		first = dateOf(t.Add(-s.WakeDelay), s.Location) - 1
	}
	var latest time.Time
	for d := first; d <= today+1; d++ {
		if s.Except.include(d) {
			continue
		}
		for i := range s.Window.len() {
			item := s.Window.item(i)
			if !item.days.include(d) {
				continue
			}
			start, end := item.on(d, s.Location)
			if !start.Before(end) || start.After(t) {
				continue
			}
			if end = end.Add(s.WakeDelay); end.After(t) && end.After(latest) {
				latest = end
			}
		}
	}
	return latest
}

// nextNight is the first start of a night after t and not after limit, zero if
// there is none. Dates before t's own cannot hold it: a later local time never
// means an earlier instant (see instant), so their starts are not after t.
func (s *Schedule) nextNight(t, limit time.Time) time.Time {
	last := dateOf(limit, s.Location) + 1
	for d := dateOf(t, s.Location); d <= last; d++ {
		if s.Except.include(d) {
			continue
		}
		var earliest time.Time
		for i := range s.Window.len() {
			item := s.Window.item(i)
			if !item.days.include(d) {
				continue
			}
			start, end := item.on(d, s.Location)
			if start.After(t) && start.Before(end) && (earliest.IsZero() || start.Before(earliest)) {
				earliest = start
			}
		}
		if !earliest.IsZero() {
			if earliest.After(limit) {
				return time.Time{}
			}
			return earliest
		}
	}
	return time.Time{}
}

const minutesPerDay = 24 * 60

// Window is a parsed list of items, each a span of local time on some days. It
// is the value of the annotation and of the flag --window.
type Window struct {
	// few holds the first items: a window seldom has more, and a pass parses
	// it anew each time without asking for memory.
	few  [4]item
	n    int // items in few
	more []item
}

// item applies on each date that days include, from the start on that date to
// the end on that date, or on the next when the end is not later than the start.
type item struct {
	days       Days
	start, end int16 // minutes of the day; the end may be 24:00
}

func (w *Window) len() int { return w.n + len(w.more) }

func (w *Window) item(i int) *item {
	if i < w.n {
		return &w.few[i]
	}
	return &w.more[i-w.n]
}

func (w *Window) add(it item) {
	if w.n < len(w.few) {
		w.few[w.n] = it
		w.n++
	} else {
		w.more = append(w.more, it)
	}
}

// String is the window in the form that ParseWindow reads.
func (w *Window) String() string {
	var b strings.Builder
	for i := range w.len() {
		if i > 0 {
			b.WriteString(", ")
		}
		it := w.item(i)
		if it.days.weekdays != everyDay {
			b.WriteString(it.days.String() + " ")
		}
		fmt.Fprintf(&b, "%02d:%02d-%02d:%02d", it.start/60, it.start%60, it.end/60, it.end%60)
	}
	return b.String()
}

// on is the item's span on a date: from start, before end. Where end is not after
// start, a clock change has swallowed the span.
func (it *item) on(d date, loc *time.Location) (start, end time.Time) {
	minutes := int(it.end)
	if it.end <= it.start {
		minutes += minutesPerDay
	}
	return instant(d, int(it.start), loc), instant(d, minutes, loc)
}

// Days is a set of weekdays and of calendar dates.
type Days struct {
	weekdays uint8       // bit n stands for time.Weekday(n)
	dates    []dateRange // nil when every weekday is in the set
}

// date is a calendar date, in days since 1970-01-01.
type date int32

// dateRange holds the dates from first to last, both included.
type dateRange struct{ first, last date }

const everyDay = 1<<7 - 1

// dateOf is t's local calendar date.
func dateOf(t time.Time, loc *time.Location) date {
	_, offset := t.In(loc).Zone()
	const day = 24 * 60 * 60
	local := t.Unix() + int64(offset)
	if local < 0 {
		local -= day - 1 // round down, not towards zero
	}
	return date(local / day)
}

func (d date) weekday() time.Weekday {
	return time.Weekday(((int(d)+int(time.Thursday))%7 + 7) % 7) // 1970-01-01 was a Thursday
}

func (d date) String() string {
	return time.Unix(int64(d)*24*60*60, 0).UTC().Format(time.DateOnly)
}

// instant is the first instant at which the local clock shows the given minute
// of the date or a later time. So a time that clocks skip is the first instant
// after the gap, and a time that they show twice is the earlier one.
func instant(d date, minute int, loc *time.Location) time.Time {
	// time.Date promises the offset of one side of a transition, not of which.
	t := time.Date(1970, 1, 1+int(d), 0, minute, 0, 0, loc)
	_, offset := t.Zone()
	local := int64(d)*24*60*60 + int64(minute)*60
	start, end := t.ZoneBounds()
	switch shown := t.Unix() + int64(offset); {
	case shown > local: // in a gap, read with the offset from before it
		return start
	case shown < local: // in a gap, read with the offset from after it
		return end
	}
	if !start.IsZero() {
		_, before := start.Add(-1).Zone()
		if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
			return earlier
		}
	}
	return t
}

func (d *Days) include(on date) bool {
	if d.weekdays&(1<<on.weekday()) != 0 {
		return true
	}
	for _, r := range d.dates {
		if r.first <= on && on <= r.last {
			return true
		}
	}
	return false
}

func (d *Days) empty() bool { return d.weekdays == 0 && len(d.dates) == 0 }

func (d *Days) add(other Days) {
	d.weekdays |= other.weekdays
	d.dates = append(d.dates, other.dates...)
	if d.weekdays == everyDay {
		d.dates = nil
	}
}

// dayNames begin with Monday, the order in which people write ranges.
var dayNames = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// String is the set in the form that ParseDays reads.
func (d *Days) String() string {
	var list []string
	has := func(i int) bool { return d.weekdays&(1<<((i+1)%7)) != 0 } // i counts from Monday
	for i := 0; i < 7; i++ {
		first := i
		for i < 7 && has(i) {
			i++
		}
		switch i - first {
		case 0:
		case 1:
			list = append(list, dayNames[first])
		default:
			list = append(list, dayNames[first]+"-"+dayNames[i-1])
		}
	}
	for _, r := range d.dates {
		if r.first == r.last {
			list = append(list, r.first.String())
		} else {
			list = append(list, r.first.String()+"/"+r.last.String())
		}
	}
	return strings.Join(list, ", ")
}

// ParseWindow reads
//
//	window = item { "," item }
//	item   = [ days ] clock "-" clock | days
//	days   = day [ "-" day ] | date [ "/" date ]
//	clock  = HH ":" MM
//
// where an item with days only lends them to the next item. White space may
// stand between tokens. The error quotes the place and says what would be right.
func ParseWindow(text string) (Window, error) {
	var w Window
	p, err := newParser(text)
	if err != nil {
		return w, err
	}
	var lent Days // by items with days only
	for {
		if !p.atClock() {
			days, err := p.days()
			if err != nil {
				return w, err
			}
			lent.add(days)
			if p.accept(",") {
				continue
			}
			if p.done() {
				return w, fmt.Errorf("%s names days without times; end with times, e.g. Sat, Sun 00:00-24:00", quote(text))
			}
		}
		it, err := p.span()
		if err != nil {
			return w, err
		}
		if it.days = lent; lent.empty() {
			it.days.weekdays = everyDay
		}
		lent = Days{}
		w.add(it)
		if p.done() {
			return w, nil
		}
		if !p.accept(",") {
			return w, fmt.Errorf(`%s after %s is not expected; put "," between items (a time zone goes into %s)`,
				p.token(), quote(p.before()), AnnotationTimezone)
		}
	}
}

// Set, with String and Type, makes a Window the value of a flag.
func (w *Window) Set(text string) (err error) {
	*w, err = ParseWindow(text)
	return err
}

// Type names the value in the usage text.
func (w *Window) Type() string { return "window" }

// ParseDays reads a list of days: Mon, Tue-Thu, 2026-12-24, 2026-12-24/2026-12-31.
func ParseDays(text string) (Days, error) {
	var all Days
	p, err := newParser(text)
	if err != nil {
		return all, err
	}
	for {
		days, err := p.days()
		if err != nil {
			return all, err
		}
		all.add(days)
		if p.done() {
			return all, nil
		}
		if !p.accept(",") {
			return all, fmt.Errorf(`%s after %s is not expected; put "," between days`, p.token(), quote(p.before()))
		}
	}
}

// parser walks over the text of a window or of a list of days; at is where the
// next token starts.
type parser struct {
	text string
	at   int
}

const space = " \t\r\n"

func newParser(text string) (parser, error) {
	switch {
	case len(text) > maxText:
		return parser{}, fmt.Errorf("%d bytes are too long; the limit is %d", len(text), maxText)
	case strings.Trim(text, space) != text:
		return parser{}, errors.New("white space at the start or the end; it may only stand between tokens")
	}
	return parser{text: text}, nil
}

func (p *parser) done() bool { return p.at == len(p.text) }

// before is what was read so far.
func (p *parser) before() string { return strings.TrimRight(p.text[:p.at], space) }

// skip moves past n bytes and the white space that follows.
func (p *parser) skip(n int) {
	for p.at += n; p.at < len(p.text) && strings.IndexByte(space, p.text[p.at]) >= 0; p.at++ {
	}
}

func (p *parser) accept(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.skip(len(token))
	return true
}

// token quotes the word at the present place for an error.
func (p *parser) token() string {
	if p.done() {
		return "the end"
	}
	rest := p.text[p.at:]
	if n := strings.IndexAny(rest, space+",-"); n > 0 {
		rest = rest[:n]
	} else if n == 0 {
		rest = rest[:1]
	}
	return quote(rest)
}

// digits is the length of the run of digits at the present place.
func (p *parser) digits() int {
	n := 0
	for p.at+n < len(p.text) && '0' <= p.text[p.at+n] && p.text[p.at+n] <= '9' {
		n++
	}
	return n
}

// atClock tells a time of day from days: both may start with digits, but only
// a date has four of them.
func (p *parser) atClock() bool {
	n := p.digits()
	return n > 0 && n < 4
}

// days reads one day, date, or range of either.
func (p *parser) days() (Days, error) {
	if p.digits() > 0 {
		first, err := p.date()
		if err != nil {
			return Days{}, err
		}
		last := first
		if p.accept("/") {
			if last, err = p.date(); err != nil {
				return Days{}, err
			}
		}
		if last < first {
			return Days{}, fmt.Errorf("%s/%s runs backwards; put the earlier date first", first, last)
		}
		return Days{dates: []dateRange{{first, last}}}, nil
	}
	first, err := p.day()
	if err != nil {
		return Days{}, err
	}
	last := first
	if p.accept("-") {
		if last, err = p.day(); err != nil {
			return Days{}, err
		}
	}
	days := Days{weekdays: 1 << last}
	for day := first; day != last; day = (day + 1) % 7 {
		days.weekdays |= 1 << day
	}
	return days, nil
}

func (p *parser) day() (time.Weekday, error) {
	n := 0
	for p.at+n < len(p.text) && ('a' <= p.text[p.at+n]|0x20 && p.text[p.at+n]|0x20 <= 'z') {
		n++
	}
	for i, name := range dayNames {
		if strings.EqualFold(p.text[p.at:p.at+n], name) {
			p.skip(n)
			return time.Weekday((i + 1) % 7), nil
		}
	}
	if p.done() {
		return 0, fmt.Errorf("a day is missing at the end; use %s or a date", weekdayList)
	}
	return 0, fmt.Errorf("%s is not a day; use %s or a date such as 2026-12-24", p.token(), weekdayList)
}

const weekdayList = "Mon, Tue, Wed, Thu, Fri, Sat, Sun"

func (p *parser) date() (date, error) {
	rest := p.text[p.at:]
	text := rest[:min(len(rest), len(time.DateOnly))]
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a date; use YYYY-MM-DD, e.g. 2026-12-24", quote(text))
	}
	p.skip(len(text))
	return dateOf(t, time.UTC), nil
}

// span reads clock "-" clock.
func (p *parser) span() (it item, err error) {
	from := p.at
	if it.start, err = p.clock(minutesPerDay - 1); err != nil {
		return it, err
	}
	if !p.accept("-") {
		return it, fmt.Errorf(`%s follows %s; a window has a start and an end with "-" between, e.g. 21:00-07:00`, p.token(), quote(p.before()))
	}
	if it.end, err = p.clock(minutesPerDay); err != nil {
		return it, err
	}
	if it.start == it.end {
		return it, fmt.Errorf("%s starts and ends at the same time; a whole day is 00:00-24:00", quote(strings.TrimRight(p.text[from:p.at], space)))
	}
	return it, nil
}

// clock reads HH:MM as minutes of the day, latest at the most.
func (p *parser) clock(latest int16) (int16, error) {
	rest := p.text[p.at:]
	if len(rest) >= 5 && rest[2] == ':' {
		hours, ok1 := twoDigits(rest[0:2])
		minutes, ok2 := twoDigits(rest[3:5])
		if n := hours*60 + minutes; ok1 && ok2 && minutes < 60 && n <= latest {
			p.skip(5)
			return n, nil
		}
	}
	if latest == minutesPerDay {
		return 0, fmt.Errorf("%s is not an end; use HH:MM, 00:00 to 24:00", p.token())
	}
	return 0, fmt.Errorf("%s is not a start; use HH:MM, 00:00 to 23:59", p.token())
}

func twoDigits(text string) (n int16, ok bool) {
	tens, ones := text[0]-'0', text[1]-'0'
	return int16(tens)*10 + int16(ones), tens <= 9 && ones <= 9
}
