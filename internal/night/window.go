package night

import (
	"fmt"
	"strings"
)

// MinutesPerDay are those that a local clock shows on most days.
const MinutesPerDay = 24 * 60

// Window is a parsed list of items, each a span of local time on some days. It
// is the value of the annotation and of the flag --window.
type Window struct {
	// few holds the first items: a window seldom has more, and a pass parses
	// it anew each time without asking for memory.
	few  [4]Item
	n    int // items in few
	more []Item
}

// Item applies on each date that days include, from the start on that date to
// the end on that date, or on the next when the end is not later than the start.
type Item struct {
	Days       Days
	Start, End int16 // minutes of the day; the end may be 24:00
}

// Len is the number of items.
func (w *Window) Len() int { return w.n + len(w.more) }

// Item is the item with the index i, from 0. It is not to be changed.
func (w *Window) Item(i int) *Item {
	if i < w.n {
		return &w.few[i]
	}
	return &w.more[i-w.n]
}

// Add puts an item to the end of the list.
func (w *Window) Add(it Item) {
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
	for i := range w.Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		it := w.Item(i)
		if it.Days.weekdays != everyDay {
			b.WriteString(it.Days.String() + " ")
		}
		fmt.Fprintf(&b, "%02d:%02d-%02d:%02d", it.Start/60, it.Start%60, it.End/60, it.End%60)
	}
	return b.String()
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
				return w, fmt.Errorf("%s names days without times; end with times, e.g. Sat, Sun 00:00-24:00", Quote(text))
			}
		}
		it, err := p.span()
		if err != nil {
			return w, err
		}
		if it.Days = lent; lent.Empty() {
			it.Days.weekdays = everyDay
		}
		lent = Days{}
		w.Add(it)
		if p.done() {
			return w, nil
		}
		if !p.accept(",") {
			return w, fmt.Errorf(`%s after %s is not expected; put "," between items (a time zone goes into %s)`,
				p.token(), Quote(p.before()), AnnotationTimezone)
		}
	}
}

// Set reads the window; with String and Type it makes a Window the value of a flag.
func (w *Window) Set(text string) (err error) {
	*w, err = ParseWindow(text)
	return err
}

// Type names the value in the usage text.
func (w *Window) Type() string { return "window" }
