package web

import (
	"crypto/sha256"
	_ "embed" // page.html
	"encoding/base64"
	"fmt"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pageText is the page's template, in html/template's language. Its only style is a
// constant: the policy allows that one, by its hash, and no script or request at all.
//
//go:embed page.html
var pageText string

var (
	pageMarkup = mustParseMarkup("page.html", pageText)
)

// styleHash is what a Content-Security-Policy calls the text of the style element.
func styleHash(page string) string {
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageView is what page.html shows. Positions along a bar are percentages; texts from
// the cluster are printable, and escaped by the template.
type pageView struct {
	Title   string
	Time    timeView
	Tiles   []tile
	Saved   saved
	Filters []filter
	All     string // link without any filter, "" if there is none
	Now     string
	Ticks   []tick
	Zone    string // of the ticks
	Groups  []group
	Empty   empty
	More    bool // than one page
	First, Last, Found,
	Page, Pages int
	Previous, Next string
	JSON           string
}

// empty is what there is instead of rows: a text, and a link if one leads on.
type empty struct{ Text, URL, Link string }

type timeView struct{ Machine, Text string }

// tile is a count, with a link to what it counts.
type tile struct {
	Class, URL string
	Count      int
	Current    bool
}

// saved is what sleeping saves now.
type saved struct{ Replicas, Cores, Memory string }

// filter is a field of the form, with what it can be set to.
type filter struct {
	Name    string
	Options []option
}

type option struct {
	Value    string
	Selected bool
}

func newFilter(name, value string, values []string) filter {
	f := filter{Name: name}
	if value != "" && !slices.Contains(values, value) {
		f.Options = append(f.Options, option{value, true})
	}
	for _, v := range values {
		f.Options = append(f.Options, option{night.Printable(v), v == value})
	}
	return f
}

// tick is a mark on the time axis. Its text may be "", where there is no room.
type tick struct {
	X, Text  string
	Midnight bool
}

// group is the rows of a namespace, or all that are invalid.
type group struct {
	Title     string
	Invalid   bool
	Continued bool // from the page before
	Count     int  // on all pages
	Rows      []rowView
}

type rowView struct {
	Namespace, Name string
	State           string
	Overdue         bool
	Override        string
	Replicas        int32
	Want            string // the count to be set, "" if the present one is right
	Expected        string
	Window          string
	Error           string
	Notes           []note // on annotations that have no effect
	To              string // what the next change does, "" if there is none
	In              string
	At              timeView
	Drawn           bool
	Undrawn         string // what to say in place of a bar
	Label           string
	Segments        []segment
}

// note is a text: the template shows fields alone.
type note struct{ Text string }

// segment is a part of a bar.
type segment struct{ X, Width, State, Text string }

// html is the page for people.
func (p *Page) html(q pageQuery, now time.Time) ([]byte, error) {
	text, err := pageMarkup.execute(p.view(q, now))
	return []byte(text), err
}

func (p *Page) view(q pageQuery, now time.Time) pageView {
	q.page = max(q.page, 1)
	l := p.list(q, now)
	first, list := l.page(q.page)
	rows := make([]pageRow, len(list))
	teller := p.teller(now, pageChanges)
	for i, item := range list {
		rows[i] = teller.row(item, true)
	}
	zone := p.axisZone(rows)
	v := pageView{
		Title:   "schedule-night",
		Time:    timeView{now.UTC().Format(time.RFC3339), now.In(zone).Format("Mon 2 Jan 15:04:05 ") + zone.String()},
		Saved:   saved{night.Amount(l.totals.SavedReplicas), night.Amount(l.totals.SavedCores), night.Amount(l.totals.SavedBytes / (1 << 30))},
		Filters: []filter{newFilter("namespace", q.namespace, l.namespaces), newFilter("state", q.state, pageStates)},
		Now:     percent(pagePast),
		Ticks:   ticks(now, zone),
		Zone:    zone.String(),
		More:    l.pages() > 1,
		First:   first + 1,
		Last:    first + len(rows),
		Found:   len(l.found),
		Page:    q.page,
		Pages:   l.pages(),
		JSON:    "schedule.json" + strings.TrimPrefix(pageQuery{namespace: q.namespace, state: q.state}.url(), "./"),
	}
	if n := l.totals.Overdue; n > 0 {
		v.Title = strconv.Itoa(n) + " overdue · " + v.Title
	}
	for _, t := range []tile{
		{Class: string(outlook.Asleep), Count: l.totals.Asleep},
		{Class: string(outlook.Awake), Count: l.totals.Awake},
		{Class: string(outlook.Invalid), Count: l.totals.Invalid},
		{Class: string(outlook.Released), Count: l.totals.Released},
		{Class: stateOverdue, Count: l.totals.Overdue},
	} {
		t.URL = pageQuery{namespace: q.namespace, state: t.Class}.url()
		if t.Current = t.Class == q.state; t.Current { // and so it lets go again
			t.URL = pageQuery{namespace: q.namespace}.url()
		}
		if t.Count > 0 || t.Class != string(outlook.Released) { // which seldom lasts a second
			v.Tiles = append(v.Tiles, t)
		}
	}
	if q.namespace != "" || q.state != "" {
		v.All = pageQuery{}.url()
	}
	if q.page > 1 {
		v.Previous = pageQuery{q.namespace, q.state, min(q.page-1, v.Pages)}.url()
	}
	if q.page < v.Pages {
		v.Next = pageQuery{q.namespace, q.state, q.page + 1}.url()
	}
	switch {
	case len(rows) > 0:
	case len(l.found) > 0:
		v.Empty = empty{"There is no such page.", pageQuery{q.namespace, q.state, 1}.url(), "First page"}
	case v.All != "":
		v.Empty = empty{"No Deployment matches.", v.All, "Show all"}
	default:
		v.Empty = empty{Text: "No Deployment has opted in yet."}
	}
	v.Groups = groups(&l, first, rows, zone, now)
	return v
}

// groups puts rows, which come sorted, together under their headings.
func groups(l *listing, first int, rows []pageRow, axis *time.Location, now time.Time) []group {
	// heading is "" for what is invalid, which no namespace is called.
	heading := func(i int) string {
		if item := l.found[i]; item.state != outlook.Invalid {
			return item.Namespace
		}
		return ""
	}
	counts := map[string]int{}
	for i := range l.found {
		counts[heading(i)]++
	}
	var list []group
	for i := range rows {
		name := heading(first + i)
		if i == 0 || name != heading(first+i-1) {
			list = append(list, group{
				Title:     night.Printable(name),
				Invalid:   name == "",
				Continued: first+i > 0 && name == heading(first+i-1),
				Count:     counts[name],
			})
		}
		g := &list[len(list)-1]
		g.Rows = append(g.Rows, newRowView(&rows[i], axis, now))
	}
	return list
}

func newRowView(row *pageRow, axis *time.Location, now time.Time) rowView {
	v := rowView{
		Namespace: night.Printable(row.Namespace),
		Name:      night.Printable(row.Name),
		State:     string(row.State),
		Overdue:   row.Overdue,
		Replicas:  row.Replicas,
		Error:     night.Printable(row.Error),
	}
	if row.due.Scale {
		v.Want = strconv.Itoa(int(row.due.Replicas))
	}
	if row.State != outlook.Released {
		for _, m := range row.misspelt {
			v.Notes = append(v.Notes, note{night.Printable(m.String())})
		}
	}
	switch {
	case row.Error != "":
		return v
	case row.Schedule == nil:
		v.Window, v.Undrawn = "opted out", "to be woken and let go"
		return v
	}
	v.Expected = strconv.Itoa(int(row.Expected))
	v.Window, v.Undrawn = row.Schedule.Window.String()+" "+row.Timezone, "too many changes to draw"
	v.Override = row.due.Override()
	if next := row.due.Now.Next; !next.IsZero() {
		v.To, v.In = "sleeps", inUnits(next.Sub(now))
		if row.due.State == outlook.Asleep {
			v.To = "wakes"
		}
		v.At = timeView{next.UTC().Format(time.RFC3339), localTime(next, now)}
		if row.Schedule.Location != axis { // whose clock it is cannot be seen from the axis
			v.At.Text += " " + row.Timezone
		}
	}
	if row.bar != nil {
		v.Drawn, v.Segments, v.Label = true, segments(row.bar, now, row.Schedule.Location), barLabel(row.bar, now, row.Schedule.Location)
	}
	return v
}

// segments are the parts of a bar, with their times for who points at them.
func segments(bar []outlook.Stretch, now time.Time, zone *time.Location) []segment {
	begin := now.Add(-pagePast)
	var list []segment
	for i, s := range bar {
		text := string(s.State)
		if i > 0 {
			text += " from " + localTime(s.From.In(zone), now)
		}
		if i < len(bar)-1 {
			text += " until " + localTime(s.To.In(zone), now)
		}
		list = append(list, segment{percent(s.From.Sub(begin)), percent(s.To.Sub(s.From)), string(s.State), text})
	}
	return list
}

// barLabel says in words what a bar shows from now on.
func barLabel(bar []outlook.Stretch, now time.Time, zone *time.Location) string {
	var parts []string
	for i, s := range bar {
		switch {
		case i < len(bar)-1 && !s.To.After(now): // past
		case i < len(bar)-1:
			parts = append(parts, string(s.State)+" until "+localTime(s.To.In(zone), now))
		default:
			parts = append(parts, "then "+string(s.State))
		}
	}
	if len(parts) == 1 {
		return string(bar[len(bar)-1].State) + " for the next 24 hours"
	}
	return strings.Join(parts, ", ")
}

// percent is a length of time along a bar.
func percent(d time.Duration) string {
	return strconv.FormatFloat(100*d.Seconds()/(pagePast+pageFuture).Seconds(), 'f', 2, 64) + "%"
}

// tickHours are between the marks of the axis.
const tickHours = 3

// ticks are the full hours of a zone within the bar, by the clock on the wall: clock
// changes move them.
func ticks(now time.Time, zone *time.Location) []tick {
	begin, end := now.Add(-pagePast), now.Add(pageFuture)
	var list []tick
	for d := night.DateOf(begin, zone); d <= night.DateOf(end, zone); d++ {
		for hour := 0; hour < 24; hour += tickHours {
			at := night.Instant(d, hour*60, zone)
			if !at.After(begin) || !at.Before(end) {
				continue
			}
			t := tick{X: percent(at.Sub(begin)), Midnight: hour == 0}
			// Texts would be cut at the ends, and run into that of now.
			if at.Sub(begin) > 40*time.Minute && end.Sub(at) > 40*time.Minute && at.Sub(now).Abs() > 80*time.Minute {
				if t.Text = at.Format("15:04"); t.Midnight {
					t.Text = at.Format("Mon")
				}
			}
			list = append(list, t)
		}
	}
	return list
}

// axisZone is the zone of most rows, so that most bars change where the axis says so;
// the default where there are none.
func (p *Page) axisZone(rows []pageRow) *time.Location {
	zone, counts := p.zone, map[*time.Location]int{}
	for _, row := range rows {
		if row.Schedule == nil {
			continue
		}
		counts[row.Schedule.Location]++
		if counts[row.Schedule.Location] > counts[zone] {
			zone = row.Schedule.Location
		}
	}
	return zone
}

// localTime is a time on its own clock, with the day if it is near and else the date.
func localTime(t, now time.Time) string {
	if t.Sub(now) > 6*24*time.Hour {
		return t.Format("2 Jan 2006 15:04")
	}
	return t.Format("Mon 15:04")
}

// inUnits is a length of time, rounded up, in the two units that matter.
func inUnits(d time.Duration) string {
	minutes := int((d + time.Minute - 1) / time.Minute)
	days, hours, minutes := minutes/night.MinutesPerDay, minutes/60%24, minutes%60
	switch {
	case days > 0 && hours > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case days > 0:
		return fmt.Sprintf("%d d", days)
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%d h", hours)
	}
	return fmt.Sprintf("%d min", minutes)
}
