package web

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
)

const (
	// pageRows is how many Deployments a page shows.
	pageRows = 100
	// pagePast and pageFuture are the time that a bar shows before and after now.
	pagePast   = 2 * time.Hour
	pageFuture = 24 * time.Hour
	// maxRowsTime bounds the time for what will happen in the rows of an answer: windows
	// of hundreds of items, which nobody needs, take a tenth of a second each.
	maxRowsTime = 3 * time.Second
)

// Source is what the page shows. What it yields is of a cache: never to be written to.
type Source interface {
	// Managed is every workload that something is to be done about.
	Managed(now time.Time) iter.Seq[outlook.Managed]
	// Decide decides about one of them.
	Decide(w *workload.Workload, at time.Time) outlook.Decision
}

// Page serves what the cache and the clock tell about all managed workloads, as a page
// and as JSON. Every replica does, not only the leader.
type Page struct {
	source Source
	zone   *time.Location // of the time axis where no row tells
	clock  clock.PassiveClock
	synced func() bool
	// turn is held while an answer is made: readers, however many, take at most one
	// CPU from the workers.
	turn chan struct{}
	// rowsTime is maxRowsTime, outside of tests.
	rowsTime time.Duration
}

// NewPage makes a page that answers once synced does.
func NewPage(source Source, zone *time.Location, clk clock.PassiveClock, synced func() bool) *Page {
	return &Page{source: source, zone: zone, clock: clk, synced: synced, turn: make(chan struct{}, 1), rowsTime: maxRowsTime}
}

// register adds the page to a server's paths.
func (p *Page) register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", p.handler("text/html; charset=utf-8", p.html))
	mux.Handle("GET /schedule.json", p.handler("application/json", p.json))
}

// handler answers with what render makes of the query.
func (p *Page) handler(contentType string, render func(pageQuery, time.Time) (string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		query, err := parsePageQuery(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if !p.synced() {
			http.Error(w, "the caches are not synced yet", http.StatusServiceUnavailable)
			return
		}
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
		case <-r.Context().Done():
			return
		}
		body, err := render(query, p.clock.Now())
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Making the status page failed")
			http.Error(w, "making the page failed, see the log", http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body)) // the reader has gone
	})
}

// stateOverdue is a filter beside the states of a workload: what is overdue is asleep,
// awake or released as well.
const stateOverdue = "overdue"

// pageStates are what the page can be filtered by.
var pageStates = []string{string(outlook.Asleep), string(outlook.Awake), string(outlook.Invalid), string(outlook.Released), stateOverdue}

// pageQuery says which Deployments to show: "" is all, page 0 was not given.
type pageQuery struct {
	namespace, state string
	page             int
}

// parsePageQuery reads a query string. What it does not know is an error: a filter
// with a slip in it must not show everything.
func parsePageQuery(raw string) (pageQuery, error) {
	var q pageQuery
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, errors.New("the query cannot be read; want e.g. ?namespace=shop&state=asleep&page=2")
	}
	for name, list := range values {
		value := list[0]
		switch {
		case len(list) > 1:
			return q, fmt.Errorf("%s is given more than once", night.Quote(name))
		case name == "namespace":
			if msgs := validation.IsDNS1123Label(value); value != "" && len(msgs) > 0 {
				return q, fmt.Errorf("namespace %s: want the name of a namespace", night.Quote(value))
			}
			q.namespace = value
		case name == "state":
			if value != "" && !slices.Contains(pageStates, value) {
				return q, fmt.Errorf("state %s: want asleep, awake, invalid, released or overdue", night.Quote(value))
			}
			q.state = value
		case name == "page":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || n == 0 {
				return q, fmt.Errorf("page %s: want a number from 1", night.Quote(value))
			}
			q.page = int(n)
		default:
			return q, fmt.Errorf("%s is not known; want namespace, state or page", night.Quote(name))
		}
	}
	return q, nil
}

// url is a link to the query, relative to the page wherever a proxy has put it.
func (q pageQuery) url() string {
	values := url.Values{}
	if q.namespace != "" {
		values.Set("namespace", q.namespace)
	}
	if q.state != "" {
		values.Set("state", q.state)
	}
	if q.page > 1 {
		values.Set("page", strconv.Itoa(q.page))
	}
	if len(values) == 0 {
		return "./"
	}
	return "?" + values.Encode()
}

// entry is a workload with what it takes to filter and sort: of tens of thousands, a page
// shows a hundred.
type entry struct {
	*workload.Workload
	state   outlook.State
	overdue bool
}

// listing is what a query finds.
type listing struct {
	totals     outlook.Totals // of the query's namespace, in all states
	namespaces []string       // all that have a managed workload
	found      []entry        // of all pages
}

// list looks at every managed workload. What is invalid comes first: it waits for
// somebody to see it.
func (p *Page) list(q pageQuery, now time.Time) listing {
	var l listing
	namespaces := map[string]bool{}
	for m := range p.source.Managed(now) {
		namespaces[m.Namespace] = true
		if q.namespace != "" && q.namespace != m.Namespace {
			continue
		}
		l.totals.Add(&m)
		if q.state == "" || q.state == string(m.Due.State) || q.state == stateOverdue && m.Overdue {
			l.found = append(l.found, entry{m.Workload, m.Due.State, m.Overdue})
		}
	}
	l.namespaces = slices.Sorted(maps.Keys(namespaces))
	slices.SortFunc(l.found, func(a, b entry) int {
		if invalid := a.state == outlook.Invalid; invalid != (b.state == outlook.Invalid) {
			if invalid {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return l
}

// pages is how many there are, at least one.
func (l *listing) pages() int { return max(1, (len(l.found)+pageRows-1)/pageRows) }

// page is the part of what was found that a page shows, from its first row on. It is
// empty past the last page.
func (l *listing) page(n int) (first int, rows []entry) {
	first = min((n-1)*pageRows, len(l.found))
	return first, l.found[first:min(first+pageRows, len(l.found))]
}

// pageRow is a workload as /schedule.json tells of it.
type pageRow struct {
	outlook.Row
	Overdue bool       `json:"overdue"`
	Next    *time.Time `json:"next"` // null if nothing will change

	due outlook.Decision
	// bar are its states from pagePast before now to pageFuture after; nil if there
	// is nothing to draw.
	bar []outlook.Stretch
}

// rows works out what will happen. Complete is false if that took too long: the rows
// that it was too late for have no transitions and no bar.
func (p *Page) rows(list []entry, now time.Time, bars bool) (rows []pageRow, complete bool) {
	rows = make([]pageRow, len(list)) // [] in JSON, also if it is empty
	complete = true
	begun := time.Now()
	for i, item := range list {
		to := now.Add(pageFuture)
		if complete = complete && time.Since(begun) < p.rowsTime; !complete {
			to = now
		}
		row := pageRow{Overdue: item.overdue, due: p.source.Decide(item.Workload, now)}
		row.Row = outlook.NewRow(item.Workload, &row.due, now, to)
		if next := row.due.Now.Next.UTC(); !next.IsZero() {
			row.Next = &next
		}
		if bars && complete && row.Schedule != nil {
			row.bar = outlook.Stretches(row.Schedule, now.Add(-pagePast), to)
		}
		rows[i] = row
	}
	return rows, complete
}

// json is the page for programs: all rows, unless a page is asked for.
func (p *Page) json(q pageQuery, now time.Time) (string, error) {
	l := p.list(q, now)
	list := l.found
	if q.page > 0 {
		_, list = l.page(q.page)
	}
	rows, complete := p.rows(list, now, false)
	text, err := json.Marshal(struct {
		At       time.Time      `json:"at"`
		Totals   outlook.Totals `json:"totals"`
		Found    int            `json:"found"`
		Complete bool           `json:"complete"`
		Rows     []pageRow      `json:"rows"`
	}{now.UTC(), l.totals, len(l.found), complete, rows})
	if err != nil {
		return "", fmt.Errorf("encoding the schedule: %w", err)
	}
	return night.Printable(string(text)) + "\n", nil
}

// pageText is the page's template, in html/template's language. Its only style is a
// constant: the policy allows that one, by its hash, and no script or request at all.
//
//go:embed page.html
var pageText string

var (
	pageMarkup = mustParseMarkup("page.html", pageText)
	pagePolicy = "default-src 'none'; style-src '" + styleHash(pageText) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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
	To              string // what the next change does, "" if there is none
	In              string
	At              timeView
	Drawn           bool
	Undrawn         string // what to say in place of a bar
	Label           string
	Segments        []segment
}

// segment is a part of a bar.
type segment struct{ X, Width, State, Text string }

// html is the page for people.
func (p *Page) html(q pageQuery, now time.Time) (string, error) {
	v, err := p.view(q, now)
	if err != nil {
		return "", err
	}
	return pageMarkup.execute(v)
}

func (p *Page) view(q pageQuery, now time.Time) (pageView, error) {
	q.page = max(q.page, 1)
	l := p.list(q, now)
	first, list := l.page(q.page)
	rows, _ := p.rows(list, now, true)
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
	return v, nil
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
