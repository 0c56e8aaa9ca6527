package night

import (
	"errors"
	"path"
	"strings"
	"sync"
	"time"
)

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

// Instant is the first instant at which the local clock shows the given minute
// of the date or a later time. So a time that clocks skip is the first instant
// after the gap, and a time that they show twice is the earlier one.
func Instant(d Date, minute int, loc *time.Location) time.Time {
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
