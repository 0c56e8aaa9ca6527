package night

import (
	"archive/zip"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"time"
)

//go:generate sh -c "cp \"$(go env GOROOT)/lib/time/zoneinfo.zip\" zoneinfo.zip && chmod 644 zoneinfo.zip"

// archive is the IANA time zone database as the Go toolchain ships it, in the public
// domain. A schedule means the same wherever it is read: by the controller in an image
// without zones, by plan on somebody's machine. time.LoadLocation cannot promise that.
// It prefers the files of the machine, which may be older, or wrong on purpose, such as
// right/Europe/Berlin, which counts leap seconds; and package time/tzdata, which has the
// same database, gives it to nobody but package time.
//
//go:embed zoneinfo.zip
var archive string

// zones holds the locations that were loaded, by name: each is parsed once. Only names
// that exist are kept.
var zones = struct {
	sync.RWMutex
	byName map[string]*time.Location
}{byName: map[string]*time.Location{"UTC": time.UTC}}

// zoneFiles is the archive's index.
var zoneFiles = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(strings.NewReader(archive), int64(len(archive)))
})

// ParseLocation finds the IANA time zone of the given name in the database that is part
// of the program; the zones of the machine are never looked at. The names "" and Local,
// which would depend on the machine, do not exist there.
func ParseLocation(name string) (*time.Location, error) {
	zones.RLock()
	loc := zones.byName[name]
	zones.RUnlock()
	if loc != nil {
		return loc, nil
	}
	files, err := zoneFiles()
	if err != nil {
		return nil, fmt.Errorf("reading the time zones of the program: %w", err)
	}
	data, err := fs.ReadFile(files, name) // which knows each zone by one spelling alone
	if err != nil {
		return nil, errors.New("want the name of an IANA time zone, e.g. Europe/Berlin, America/New_York or UTC")
	}
	name = strings.Clone(name)
	if loc, err = time.LoadLocationFromTZData(name, data); err != nil {
		return nil, fmt.Errorf("reading time zone %s: %w", name, err)
	}
	zones.Lock()
	zones.byName[name] = loc
	zones.Unlock()
	return loc, nil
}

// Instant is the first instant at which the local clock shows the given minute
// of the date or a later time. So a time that clocks skip is the first instant
// after the gap, and a time that they show twice is the earlier one.
func Instant(d Date, minute int, loc *time.Location) time.Time {
	// time.Date promises the offset of one side of a transition, not of which.
	t := time.Date(1970, 1, 1+int(d), 0, minute, 0, 0, loc)
	local := int64(d)*secondsPerDay + int64(minute)*60
	s := spellAt(t)
	switch shown := t.Unix() + s.offset; {
	case shown > local: // in a gap, read with the offset from before it
		return time.Unix(s.start, 0).In(loc)
	case shown < local: // in a gap, read with the offset from after it
		return time.Unix(s.end, 0).In(loc)
	case local < s.from: // the clock went back, and is showing it again
		return t.Add(time.Duration(s.offset-s.before) * time.Second)
	}
	return t
}

// spell is a time through which a zone's clock keeps one offset from UTC, in seconds.
type spell struct {
	start, end     int64 // in seconds since 1970; the least and the largest number if there is none
	offset, before int64 // of the local time from UTC, in it and before it
	from, to       int64 // the local times that it shows first, in seconds since 1970-01-01 00:00
}

// spellAt is the spell that holds an instant.
func spellAt(t time.Time) spell {
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	s := spell{start: math.MinInt64, end: math.MaxInt64, from: math.MinInt64, to: math.MaxInt64, offset: int64(offset), before: int64(offset)}
	if !start.IsZero() {
		_, before := start.Add(-1).Zone()
		s.start, s.before = start.Unix(), int64(before)
		s.from = s.start + max(s.offset, s.before)
	}
	if !end.IsZero() {
		// Where only a rule covers a year, its last day may lie after the end of it.
		if !end.After(t) {
			end = t.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		s.end = end.Unix()
		s.to = s.end + s.offset
	}
	return s
}

// instant is when the clock shows a local time, as Instant has it, if the spell tells.
func (s *spell) instant(local int64) (at int64, ok bool) {
	switch {
	case s.from <= local && local < s.to:
		return local - s.offset, true
	case s.start+s.before <= local && local < s.from: // it jumped over it at the start
		return s.start, true
	}
	return 0, false
}
