package night

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// parser walks over the text of a window or of a list of days; at is where the
// next token starts.
type parser struct {
	text string
	at   int
}

const space = " \t\r\n"

func newParser(text string) (parser, error) {
	switch {
	case len(text) > MaxText:
		return parser{}, errTooLong
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
	return Quote(rest)
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
		return OnDates(first, last), nil
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
	for i, name := range DayNames {
		if strings.EqualFold(p.text[p.at:p.at+n], name) {
			p.skip(n)
			return time.Weekday((i + 1) % 7), nil
		}
	}
	if p.done() {
		return 0, fmt.Errorf("a day is missing at the end; use %s or a date", WeekdayList)
	}
	return 0, fmt.Errorf("%s is not a day; use %s or a date such as 2026-12-24", p.token(), WeekdayList)
}

func (p *parser) date() (Date, error) {
	rest := p.text[p.at:]
	text := rest[:min(len(rest), len(time.DateOnly))]
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a date; use YYYY-MM-DD, e.g. 2026-12-24", Quote(text))
	}
	p.skip(len(text))
	return DateOf(t, time.UTC), nil
}

// span reads clock "-" clock.
func (p *parser) span() (it Item, err error) {
	from := p.at
	if it.Start, err = p.clock(MinutesPerDay - 1); err != nil {
		return it, err
	}
	if !p.accept("-") {
		return it, fmt.Errorf(`%s follows %s; a window has a start and an end with "-" between, e.g. 21:00-07:00`, p.token(), Quote(p.before()))
	}
	if it.End, err = p.clock(MinutesPerDay); err != nil {
		return it, err
	}
	if it.Start == it.End {
		return it, fmt.Errorf("%s starts and ends at the same time; a whole day is 00:00-24:00", Quote(strings.TrimRight(p.text[from:p.at], space)))
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
	if latest == MinutesPerDay {
		return 0, fmt.Errorf("%s is not an end; use HH:MM, 00:00 to 24:00", p.token())
	}
	return 0, fmt.Errorf("%s is not a start; use HH:MM, 00:00 to 23:59", p.token())
}

func twoDigits(text string) (n int16, ok bool) {
	tens, ones := text[0]-'0', text[1]-'0'
	return int16(tens)*10 + int16(ones), tens <= 9 && ones <= 9
}
