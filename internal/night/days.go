package night

import (
	"fmt"
	"strings"
	"time"
)

// Days is a set of weekdays and of calendar dates.
type Days struct {
	weekdays uint8       // bit n stands for time.Weekday(n)
	dates    []dateRange // nil when every weekday is in the set
}

// Date is a calendar date, in days since 1970-01-01.
type Date int32

// OnWeekdays are the given days of each week.
func OnWeekdays(list ...time.Weekday) Days {
	var d Days
	for _, day := range list {
		d.weekdays |= 1 << day
	}
	return d
}

// OnDates are the dates from first to last, both included.
func OnDates(first, last Date) Days { return Days{dates: []dateRange{{first, last}}} }

// dateRange holds the dates from first to last, both included.
type dateRange struct{ first, last Date }

const everyDay = 1<<7 - 1

const secondsPerDay = MinutesPerDay * 60

// DateOf is t's local calendar date.
func DateOf(t time.Time, loc *time.Location) Date {
	_, offset := t.In(loc).Zone()
	return dateOf(t.Unix() + int64(offset))
}

// dateOf is the date of a local time, in seconds since 1970-01-01 00:00.
func dateOf(local int64) Date {
	if local < 0 {
		local -= secondsPerDay - 1 // round down, not towards zero
	}
	return Date(local / secondsPerDay)
}

func (d Date) weekday() time.Weekday {
	return time.Weekday(((int(d)+int(time.Thursday))%7 + 7) % 7) // 1970-01-01 was a Thursday
}

func (d Date) String() string {
	return time.Unix(int64(d)*24*60*60, 0).UTC().Format(time.DateOnly)
}

// Include tells whether the date is in the set.
func (d *Days) Include(on Date) bool {
	return d.weekdays&(1<<on.weekday()) != 0 || d.name(on)
}

// name tells whether a date or a range of the set includes the date.
func (d *Days) name(on Date) bool {
	for _, r := range d.dates {
		if r.first <= on && on <= r.last {
			return true
		}
	}
	return false
}

// Empty tells whether no date is in the set.
func (d *Days) Empty() bool { return d.weekdays == 0 && len(d.dates) == 0 }

func (d *Days) add(other Days) {
	d.weekdays |= other.weekdays
	d.dates = append(d.dates, other.dates...)
	if d.weekdays == everyDay {
		d.dates = nil
	}
}

// DayNames begin with Monday, the order in which people write ranges.
var DayNames = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

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
			list = append(list, DayNames[first])
		default:
			list = append(list, DayNames[first]+"-"+DayNames[i-1])
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
			return all, fmt.Errorf(`%s after %s is not expected; put "," between days`, p.token(), Quote(p.before()))
		}
	}
}

// WeekdayList is what an error offers for a day.
const WeekdayList = "Mon, Tue, Wed, Thu, Fri, Sat, Sun"
