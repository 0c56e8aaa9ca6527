package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
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

// statusPage serves what the cache and the clock tell about all managed Deployments,
// as a page and as JSON. Every replica does, not only the leader.
type statusPage struct {
	*Controller
	synced func() bool
	// turn is held while an answer is made: readers, however many, take at most one
	// CPU from the workers.
	turn chan struct{}
	// rowsTime is maxRowsTime, outside of tests.
	rowsTime time.Duration
}

func newStatusPage(c *Controller, synced func() bool) *statusPage {
	return &statusPage{Controller: c, synced: synced, turn: make(chan struct{}, 1), rowsTime: maxRowsTime}
}

// register adds the page to a server's paths.
func (p *statusPage) register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", p.handler("text/html; charset=utf-8", p.html))
	mux.Handle("GET /schedule.json", p.handler("application/json", p.json))
}

// handler answers with what render makes of the query.
func (p *statusPage) handler(contentType string, render func(pageQuery, time.Time) (string, error)) http.Handler {
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

// stateOverdue is a filter beside the states of a planRow: an overdue Deployment is
// asleep or awake as well.
const stateOverdue = "overdue"

// pageStates are what the page can be filtered by.
var pageStates = []string{planAsleep, planAwake, planInvalid, stateOverdue}

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
			return q, fmt.Errorf("%s is given more than once", quote(name))
		case name == "namespace":
			if msgs := validation.IsDNS1123Label(value); value != "" && len(msgs) > 0 {
				return q, fmt.Errorf("namespace %s: want the name of a namespace", quote(value))
			}
			q.namespace = value
		case name == "state":
			if value != "" && !slices.Contains(pageStates, value) {
				return q, fmt.Errorf("state %s: want asleep, awake, invalid or overdue", quote(value))
			}
			q.state = value
		case name == "page":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || n == 0 {
				return q, fmt.Errorf("page %s: want a number from 1", quote(value))
			}
			q.page = int(n)
		default:
			return q, fmt.Errorf("%s is not known; want namespace, state or page", quote(name))
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

// listed is a managed Deployment with what it takes to filter and sort.
type listed struct {
	*appsv1.Deployment
	state   string
	overdue bool
}

// listing is what a query finds.
type listing struct {
	totals     totals   // of the query's namespace, in all states
	namespaces []string // all that have a Deployment which opted in
	found      []listed // of all pages
}

// list looks at every Deployment in the cache. What is invalid comes first: it waits
// for somebody to see it.
func (p *statusPage) list(q pageQuery, now time.Time) (listing, error) {
	var l listing
	deployments, err := p.lister.List(labels.Everything())
	if err != nil {
		return l, fmt.Errorf("reading the cache: %w", err)
	}
	namespaces := map[string]bool{}
	for _, d := range deployments {
		if _, ok := d.Annotations[AnnotationOn]; !ok {
			continue
		}
		namespaces[d.Namespace] = true
		if q.namespace != "" && q.namespace != d.Namespace {
			continue
		}
		before := l.totals
		l.totals.add(d, p.defaults, p.autoscalers.of(keyOf(d)), now)
		item := listed{d, "", l.totals.Overdue > before.Overdue}
		switch {
		case l.totals.Asleep > before.Asleep:
			item.state = planAsleep
		case l.totals.Awake > before.Awake:
			item.state = planAwake
		case l.totals.Invalid > before.Invalid:
			item.state = planInvalid
		default: // not managed
			continue
		}
		if q.state == "" || q.state == item.state || q.state == stateOverdue && item.overdue {
			l.found = append(l.found, item)
		}
	}
	for namespace := range namespaces {
		l.namespaces = append(l.namespaces, namespace)
	}
	slices.Sort(l.namespaces)
	slices.SortFunc(l.found, func(a, b listed) int {
		if invalid := a.state == planInvalid; invalid != (b.state == planInvalid) {
			if invalid {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return l, nil
}

// pages is how many there are, at least one.
func (l *listing) pages() int { return max(1, (len(l.found)+pageRows-1)/pageRows) }

// page is the part of what was found that a page shows, from its first row on. It is
// empty past the last page.
func (l *listing) page(n int) (first int, rows []listed) {
	first = min((n-1)*pageRows, len(l.found))
	return first, l.found[first:min(first+pageRows, len(l.found))]
}

// pageRow is a Deployment as /schedule.json tells of it.
type pageRow struct {
	planRow
	Overdue bool       `json:"overdue"`
	Next    *time.Time `json:"next"` // null if nothing will change

	// decision is what the controller makes of it now.
	decision decision
	// bar are its states from pagePast before now to pageFuture after; nil if there
	// is nothing to draw.
	bar []stretch
}

// rows works out what will happen. Complete is false if that took too long: the rows
// that it was too late for have no transitions and no bar.
func (p *statusPage) rows(list []listed, now time.Time, bars bool) (rows []pageRow, complete bool) {
	rows = make([]pageRow, len(list)) // [] in JSON, also if it is empty
	complete = true
	begun := time.Now()
	for i, item := range list {
		to := now.Add(pageFuture)
		if complete = complete && time.Since(begun) < p.rowsTime; !complete {
			to = now
		}
		hpa := p.autoscalers.of(keyOf(item.Deployment))
		row := pageRow{planRow: newPlanRow(item.Deployment, p.defaults, hpa, now, to), Overdue: item.overdue}
		row.decision = decide(item.Deployment, p.defaults, hpa, now)
		if next := row.decision.next.UTC(); !next.IsZero() {
			row.Next = &next
		}
		if bars && complete && row.schedule != nil {
			row.bar = stretches(row.schedule, now.Add(-pagePast), to)
		}
		rows[i] = row
	}
	return rows, complete
}

// json is the page for programs: all rows, unless a page is asked for.
func (p *statusPage) json(q pageQuery, now time.Time) (string, error) {
	l, err := p.list(q, now)
	if err != nil {
		return "", err
	}
	list := l.found
	if q.page > 0 {
		_, list = l.page(q.page)
	}
	rows, complete := p.rows(list, now, false)
	text, err := json.Marshal(struct {
		At       time.Time `json:"at"`
		Totals   totals    `json:"totals"`
		Found    int       `json:"found"`
		Complete bool      `json:"complete"`
		Rows     []pageRow `json:"rows"`
	}{now.UTC(), l.totals, len(l.found), complete, rows})
	if err != nil {
		return "", fmt.Errorf("encoding the schedule: %w", err)
	}
	return printable(string(text)) + "\n", nil
}
