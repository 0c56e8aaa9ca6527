package web

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// pageRows is how many Deployments a page shows.
	pageRows = 100
	// pagePast and pageFuture are the time that a bar shows before and after now.
	pagePast   = 2 * time.Hour
	pageFuture = 24 * time.Hour
	// pageChanges and jsonChanges are how many changes an answer tells of: windows of
	// hundreds of items, which nobody needs, would make it large without bounds. A day
	// commonly has two to four.
	pageChanges = 50 * pageRows
	jsonChanges = 100_000
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
}

// NewPage makes a page that answers once synced does.
func NewPage(source Source, zone *time.Location, clk clock.PassiveClock, synced func() bool) *Page {
	return &Page{source: source, zone: zone, clock: clk, synced: synced}
}

// register adds the page to a server's paths.
func (p *Page) register(mux *http.ServeMux, turn turn) {
	query := func(r *http.Request) string { return r.URL.RawQuery }
	mux.Handle("GET /{$}", &answers{handler: p.handler("text/html; charset=utf-8", p.html), key: query, limit: pageInFlight, turn: turn})
	mux.Handle("GET /schedule.json", &answers{handler: p.handler("application/json", p.json), key: query, limit: jsonInFlight, turn: turn})
}

// handler answers with what render makes of the query.
func (p *Page) handler(contentType string, render func(pageQuery, time.Time) ([]byte, error)) http.Handler {
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
		body, err := render(query, p.clock.Now())
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Making the status page failed")
			http.Error(w, "making the page failed, see the log", http.StatusInternalServerError)
			return
		}
		header.Set("Content-Type", contentType)
		_, _ = w.Write(body) // to be sent: there are no errors
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

	due      outlook.Decision
	misspelt []night.Misspelling
	// bar are its states from pagePast before now to pageFuture after; nil if there
	// is nothing to draw.
	bar []outlook.Stretch
}

// teller works out what will happen in rows, until as many changes are told as are to be.
type teller struct {
	*Page
	now     time.Time
	changes int // still to be told
	// complete is false if rows were left out: these have no transitions and no bar.
	complete bool
}

func (p *Page) teller(now time.Time, changes int) teller { return teller{p, now, changes, true} }

func (t *teller) row(item entry, bar bool) pageRow {
	to := t.now.Add(pageFuture)
	if t.complete = t.complete && t.changes > 0; !t.complete {
		to = t.now
	}
	row := pageRow{Overdue: item.overdue, due: t.source.Decide(item.Workload, t.now), misspelt: item.Misspelt()}
	row.Row = outlook.NewRow(item.Workload, &row.due, t.now, to)
	if next := row.due.Now.Next.UTC(); !next.IsZero() {
		row.Next = &next
	}
	if bar && t.complete && row.Schedule != nil {
		row.bar = outlook.Stretches(row.Schedule, t.now.Add(-pagePast), to)
	}
	t.changes -= max(len(row.Transitions), len(row.bar)-1)
	return row
}

// json is the page for programs: all rows, unless a page is asked for. There may be tens
// of thousands: they are written one by one.
func (p *Page) json(q pageQuery, now time.Time) ([]byte, error) {
	l := p.list(q, now)
	list := l.found
	if q.page > 0 {
		_, list = l.page(q.page)
	}
	var out bytes.Buffer
	head, err := json.Marshal(struct {
		At     time.Time      `json:"at"`
		Totals outlook.Totals `json:"totals"`
		Found  int            `json:"found"`
	}{now.UTC(), l.totals, len(l.found)})
	if err != nil {
		return nil, fmt.Errorf("encoding the schedule: %w", err)
	}
	out.Write(bytes.TrimSuffix(head, []byte("}")))
	out.WriteString(`,"rows":[`)
	teller := p.teller(now, jsonChanges)
	for i, item := range list {
		text, err := json.Marshal(teller.row(item, false))
		if err != nil {
			return nil, fmt.Errorf("encoding the schedule of %s: %w", item.Key(), err)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(night.Printable(string(text)))
	}
	fmt.Fprintf(&out, `],"complete":%t}`+"\n", teller.complete)
	return out.Bytes(), nil
}

var (
	pagePolicy = "default-src 'none'; style-src '" + styleHash(pageText) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
