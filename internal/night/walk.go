package night

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// walk goes through the nights of a schedule once, in the order in which they start. So a
// question costs one look at each item for each date that it goes over, a little more
// than a year of them at the most, and a look is a sum: clock tells how few local times
// need more. How many items there can be, and dates among their days, follows from MaxText.
//
// Instants are nanoseconds after base here.
type walk struct {
	s     *Schedule
	base  int64 // seconds since 1970
	delay int64
	awake int64 // awake-until, or AwakeAt: nights that end no later have no delay

	items []item // in the order of their starts
	date  Date   // on which the next night to look at may start,
	next  int    // and its item
	end   int64  // the latest one of the nights so far; they may have ended before

	// Of the date, if next is not 0: its weekday, as a bit; and its midnight, if even is
	// set: no spell of the zone ends before the nights of the date do.
	weekday  uint8
	even     bool
	midnight int64

	clock clock
	looks int // at an item on a date
}

// item is an Item as a walk needs it. Its end is on the same date: up to 48:00.
type item struct {
	start, end int64 // nanoseconds after midnight
	index      int32 // in the window
	weekdays   uint8
	dated      bool
}

// few is room for the items of a window as it commonly is.
type few [8]item

// walk begins a walk for questions about t and later. It takes its room from the caller,
// so that a common schedule needs no memory.
func (s *Schedule) walk(t time.Time, room *few) walk {
	items, n := room[:0], s.Window.Len()
	if n > len(room) {
		items = make([]item, 0, n)
	}
	for i := range n {
		it := s.Window.Item(i)
		start, end := int64(it.Start), int64(it.End)
		if end <= start {
			end += MinutesPerDay
		}
		items = append(items, item{start * int64(time.Minute), end * int64(time.Minute), int32(i), it.Days.weekdays, len(it.Days.dates) > 0})
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.start, b.start) })
	items = merge(items)
	w := walk{s: s, base: t.Unix(), delay: int64(s.WakeDelay), items: items, end: math.MinInt64}
	w.awake = max(w.rel(s.AwakeUntil), w.rel(s.AwakeAt))
	// A night that holds t had not ended a wake delay ago, so it started on that day or
	// on the one before.
	first := t.Add(-s.WakeDelay).In(s.Location)
	around := spellAt(first)
	w.date = dateOf(first.Unix()+around.offset) - 1
	w.clock.keep(around)
	return w
}

// merge makes one of items that touch or overlap on the same weekdays. A later local time
// never means an earlier instant, so no clock change can tell them apart.
func merge(items []item) []item {
	merged := items[:0]
	for _, it := range items {
		if n := len(merged) - 1; n >= 0 && !it.dated && !merged[n].dated && it.weekdays == merged[n].weekdays && it.start <= merged[n].end {
			merged[n].end = max(merged[n].end, it.end)
		} else {
			merged = append(merged, it)
		}
	}
	return merged
}

// cost is what the answers so far have taken.
func (w *walk) cost() cost { return cost{turns: w.clock.turns, looks: w.looks} }

// rel is an instant after base, or the farthest that there is a number for.
func (w *walk) rel(t time.Time) int64 { return int64(t.Sub(time.Unix(w.base, 0))) }

// instant is when the clock shows the time of the date, as Instant has it.
func (w *walk) instant(sinceMidnight int64) int64 {
	local := int64(w.date)*secondsPerDay + sinceMidnight/int64(time.Second)
	return (w.clock.instant(w.s.Location, local) - w.base) * int64(time.Second)
}

// state tells what the window says of t, and the first later instant, not after
// limit, at which that changes (else zero). t must not be before that of an earlier
// question or of begin, and limit not more than some years after it.
func (w *walk) state(t, limit time.Time) State {
	now, last := w.rel(t), w.rel(limit)
	for ; w.end <= last; w.date, w.next = w.date+1, 0 {
		if w.next == 0 {
			if w.midnight = w.instant(0); w.midnight > last {
				if w.end > now {
					return w.until(true, w.end, last)
				}
				return State{}
			}
			w.looks++
			if w.s.Except.Include(w.date) {
				continue
			}
			w.looks += len(w.items)
			w.weekday, w.even = 1<<w.date.weekday(), w.clock.even(int64(w.date)*secondsPerDay)
		}
		for i := w.next; i < len(w.items); i++ {
			it := &w.items[i]
			if it.weekdays&w.weekday == 0 && (!it.dated || !w.s.Window.Item(int(it.index)).Days.name(w.date)) {
				continue
			}
			start, end := w.midnight+it.start, w.midnight+it.end
			if !w.even {
				start, end = w.instant(it.start), w.instant(it.end)
			}
			switch {
			case start >= end: // a clock change has swallowed the night
				continue
			case start <= max(now, w.end):
			case w.end > now:
				w.next = i
				return w.until(true, w.end, last)
			default:
				w.next = i
				return w.until(false, start, last)
			}
			if end > w.awake {
				end += w.delay
			}
			w.end = max(w.end, end) // nights that overlap or touch are one
		}
	}
	return State{Asleep: true}
}

// until is the state up to next, or the horizon if that comes first.
func (w *walk) until(asleep bool, next, last int64) State {
	if next > last {
		return State{Asleep: asleep}
	}
	return State{Asleep: asleep, Next: time.Unix(w.base, next).In(w.s.Location)}
}

// clock turns local times into instants, as Instant does. Within a spell of the zone that
// is a subtraction, so the zone is asked once for each spell, and not about each night.
type clock struct {
	spells [3]spell // as many as a walk goes to and fro between
	latest int      // the one that was used last
	turns  int      // how often the zone was asked
}

func (c *clock) instant(loc *time.Location, local int64) int64 {
	s := &c.spells[c.latest]
	if s.from <= local && local < s.to {
		return local - s.offset
	}
	return c.search(loc, local)
}

// even tells whether all nights that start on a date, given by its midnight, lie in the
// spell that was used last.
func (c *clock) even(midnight int64) bool {
	s := &c.spells[c.latest]
	return s.from <= midnight && midnight+2*secondsPerDay < s.to
}

// search is instant where the spell that was used last does not tell.
func (c *clock) search(loc *time.Location, local int64) int64 {
	for i := range c.spells {
		if at, ok := c.spells[i].instant(local); ok {
			c.latest = i
			return at
		}
	}
	c.turns++
	t := Instant(0, int(local/60), loc)
	c.keep(spellAt(t))
	return t.Unix()
}

// keep puts a spell in the place of the one that ends first: a walk goes forward.
func (c *clock) keep(s spell) {
	for i := range c.spells {
		if c.spells[i].end < c.spells[c.latest].end {
			c.latest = i
		}
	}
	c.spells[c.latest] = s
}
