package web

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/outlook"
	"schedule-night/internal/outlook/outlooktest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// pageNow is a Friday evening.
const pageNow = "2026-11-27T20:30:00Z"

// cluster is a Source: Deployments by name, and their autoscalers.
type cluster struct {
	deployments []*appsv1.Deployment
	autoscalers map[string]*workload.Autoscaler
	defaults    night.Schedule
}

func (c *cluster) Managed(now time.Time) iter.Seq[outlook.Managed] {
	return func(yield func(outlook.Managed) bool) {
		for _, d := range c.deployments {
			w := workloadtest.Of(d)
			due := c.Decide(w, now)
			before := c.Decide(w, now.Add(-outlook.OverdueAfter))
			if due.State != outlook.Unmanaged && !yield(outlook.Managed{Workload: w, Due: due, Overdue: due.Scale && before.SameCount(&due)}) {
				return
			}
		}
	}
}

func (c *cluster) Decide(w *workload.Workload, at time.Time) outlook.Decision {
	return outlooktest.Decide(w, c.defaults, c.autoscalers[w.Key()], at)
}

// newTestPage makes the page of a cluster that has the Deployments.
func newTestPage(t *testing.T, now string, deployments ...*appsv1.Deployment) *Page {
	t.Helper()
	c := &cluster{deployments: deployments, autoscalers: map[string]*workload.Autoscaler{}, defaults: nighttest.Defaults(t)}
	return NewPage(c, c.defaults.Location, clocktesting.NewFakeClock(nighttest.Time(t, now)), func() bool { return true })
}

// ask asks the program's HTTP server.
func ask(p *Page, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	NewHandler(nil, nil, p).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// element is a piece of HTML, as a lenient reader finds it.
type element struct {
	name  string
	attrs map[string]string
	text  string // that follows
}

func elements(t *testing.T, page string) []element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	list := []element{{}}
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return list[1:]
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			list = append(list, e)
		case xml.EndElement:
			list = append(list, element{name: "/" + token.Name.Local})
		case xml.CharData:
			list[len(list)-1].text += string(token)
		}
	}
}

// rowTexts are the words of each row of the table, groups' headings too.
func rowTexts(t *testing.T, page string) []string {
	t.Helper()
	var rows []string
	hidden := false // what is in a bar
	for _, e := range elements(t, page) {
		hidden = e.name == "svg" || hidden && e.name != "/svg"
		if e.name == "tr" {
			rows = append(rows, "")
		}
		if len(rows) > 0 && !hidden {
			rows[len(rows)-1] += " " + e.text
		}
		if e.name == "/table" {
			break
		}
	}
	for i := range rows {
		rows[i] = strings.Join(strings.Fields(rows[i]), " ")
	}
	return rows
}

// variety has one Deployment of every kind, by 20:30 UTC on a Friday.
func variety() []*appsv1.Deployment {
	deleted := workloadtest.Placed("shop", "deleted", workloadtest.Deployment(3))
	deleted.DeletionTimestamp = ptr.To(deleted.CreationTimestamp)
	return []*appsv1.Deployment{
		workloadtest.Placed("shop", "web", workloadtest.Deployment(0, "window=20:00-07:00")),
		workloadtest.Placed("shop", "late", workloadtest.Deployment(3, "window=20:00-07:00")),
		workloadtest.Placed("shop", "changing", workloadtest.Deployment(2, "window=20:30-07:00", "night-replicas=1")),
		workloadtest.Placed("shop", "kept-up", workloadtest.Deployment(3, "window=20:00-07:00", "awake-until=2026-11-27T22:00:00Z")),
		workloadtest.Placed("shop", "sent-to-sleep", workloadtest.Deployment(0, "asleep-until=2026-11-27T21:00:00+00:00", "window=12:00-13:00")),
		workloadtest.Placed("analytics", "etl", workloadtest.Deployment(3, "timezone=Asia/Tokyo", "window=Sat, Sun 00:00-24:00")),
		workloadtest.Placed("analytics", "xmas", workloadtest.Deployment(3, "window=2026-12-24/2026-12-26 00:00-24:00")),
		workloadtest.Placed("analytics", "never", workloadtest.Deployment(3, "window=2020-12-24 00:00-24:00")),
		workloadtest.Placed("analytics", "grown", workloadtest.Deployment(9, "daytime=wake-only", "window=21:00-07:00")),
		workloadtest.Placed("shop", "legacy", workloadtest.Deployment(3, "window=9pm-7am")),
		workloadtest.Placed("analytics", "torn", workloadtest.Deployment(3, "awake-until=2026-11-28T01:00:00Z", "asleep-until=2026-11-28T02:00:00Z")),
		workloadtest.Placed("shop", "off", workloadtest.Deployment(3, "on=false")),
		workloadtest.Placed("shop", "unmanaged", workloadtest.Without(workloadtest.Deployment(3), "on")),
		workloadtest.Placed("shop", "released", workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on")),
		deleted,
	}
}

// TestPage: what a person reads, in the order of reading.
func TestPage(t *testing.T) {
	p := newTestPage(t, pageNow, variety()...)
	w := ask(p, "/")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	got := rowTexts(t, w.Body.String())
	want := []string{
		"Deployment State Replicas Next change The next 24 hours, in UTC",
		"Invalid schedules 2",
		`torn in analytics invalid 3 replicas schedule-night.svc/awake-until "2026-11-28T01:00:00Z" and schedule-night.svc/asleep-until "2026-11-28T02:00:00Z" both lie ahead: remove one of them`,
		`legacy in shop invalid 3 replicas schedule-night.svc/window "9pm-7am": "9pm" is not a start; use HH:MM, 00:00 to 23:59`,
		"analytics 4",
		"etl Sat-Sun 00:00-24:00 Asia/Tokyo asleep overdue 3 → , should be 0 replicas wakes in 1 d 18 h Mon 00:00 Asia/Tokyo",
		"grown 21:00-07:00 UTC awake 9 of 3 replicas sleeps in 30 min Fri 21:00",
		"never 2020-12-24 00:00-24:00 UTC awake 3 of 3 replicas no change ahead",
		"xmas 2026-12-24/2026-12-26 00:00-24:00 UTC awake 3 of 3 replicas sleeps in 26 d 3 h 24 Dec 2026 00:00",
		"shop 6",
		"changing 20:30-07:00 UTC asleep 2 → , should be 1 replicas wakes in 10 h 30 min Sat 07:00",
		"kept-up 20:00-07:00 UTC awake by awake-until 3 of 3 replicas sleeps in 1 h 30 min Fri 22:00",
		"late 20:00-07:00 UTC asleep overdue 3 → , should be 0 replicas wakes in 10 h 30 min Sat 07:00",
		"released opted out released overdue 0 → , should be 3 replicas no change ahead to be woken and let go",
		"sent-to-sleep 12:00-13:00 UTC asleep by asleep-until 0 of 3 replicas wakes in 30 min Fri 21:00",
		"web 20:00-07:00 UTC asleep 0 of 3 replicas wakes in 10 h 30 min Sat 07:00",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	var bars []string
	tiles := map[string]string{}
	for _, e := range elements(t, w.Body.String()) {
		if label := e.attrs["aria-label"]; e.name == "svg" && label != "" {
			bars = append(bars, label)
		}
		if e.name == "a" && e.attrs["class"] != "" {
			tiles[e.attrs["class"]] = e.attrs["href"]
		}
	}
	wantBars := []string{
		"asleep for the next 24 hours",
		"awake until Fri 21:00, asleep until Sat 07:00, then awake",
		"awake for the next 24 hours",
		"awake for the next 24 hours",
		"asleep until Sat 07:00, awake until Sat 20:30, then asleep",
		"awake until Fri 22:00, asleep until Sat 07:00, awake until Sat 20:00, then asleep",
		"asleep until Sat 07:00, awake until Sat 20:00, then asleep",
		"asleep until Fri 21:00, awake until Sat 12:00, asleep until Sat 13:00, then awake",
		"asleep until Sat 07:00, awake until Sat 20:00, then asleep",
	}
	if !slices.Equal(bars, wantBars) {
		t.Errorf("bars\n%s\nwant\n%s", strings.Join(bars, "\n"), strings.Join(wantBars, "\n"))
	}
	for _, state := range pageStates {
		if tiles[state] != "?state="+state {
			t.Errorf("tile %s links to %q", state, tiles[state])
		}
	}
	for _, want := range []string{
		"<title>3 overdue · schedule-night</title>",
		`<b class="num">5</b><span class="mark asleep">asleep</span>`,
		`<b class="num">4</b><span class="mark awake">awake</span>`,
		`<b class="num">2</b><span class="mark invalid">invalid</span>`,
		`<b class="num">1</b><span class="mark released">released</span>`,
		`<b class="num">3</b><span class="mark overdue">overdue</span>`,
		"<b>7</b> replicas", // web and sent-to-sleep 3 each, changing 1
		`<time datetime="2026-11-27T20:30:00Z">Fri 27 Nov 20:30:00 UTC</time>`,
		`<time class="sub" datetime="2026-11-29T15:00:00Z">Mon 00:00 Asia/Tokyo</time>`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestPageHeaders: nothing from elsewhere, no script, the one style by its hash.
func TestPageHeaders(t *testing.T) {
	p := newTestPage(t, pageNow, variety()...)
	for target, contentType := range map[string]string{"/": "text/html; charset=utf-8", "/schedule.json": "application/json"} {
		w := ask(p, target)
		want := http.Header{
			"Cache-Control":           {"no-store"},
			"Content-Security-Policy": {"default-src 'none'; style-src '" + styleHash(ask(p, "/").Body.String()) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
			"Content-Length":          {strconv.Itoa(w.Body.Len())},
			"Content-Type":            {contentType},
			"Referrer-Policy":         {"no-referrer"},
			"X-Content-Type-Options":  {"nosniff"},
		}
		if got := w.Result().Header; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v\nwant %v", target, got, want)
		}
	}
	if n := strings.Count(pageText, "<style"); n != 1 {
		t.Errorf("%d styles", n)
	}
}

// TestPageOff: the page is at its paths alone, and can be turned off.
func TestPageOff(t *testing.T) {
	p := newTestPage(t, pageNow)
	for _, target := range []string{"/index.html", "/x", "/schedule.json/", "/schedule", "/favicon.ico"} {
		if w := ask(p, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	for _, target := range []string{"/", "/schedule.json"} {
		if w := ask(p, target); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
		if w := ask(nil, target); w.Code != http.StatusNotFound {
			t.Errorf("%s, turned off: %d", target, w.Code)
		}
		w := httptest.NewRecorder()
		NewHandler(nil, nil, p).ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", target, w.Code)
		}
	}
	p.synced = func() bool { return false }
	if w := ask(p, "/"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "the caches are not synced yet\n" {
		t.Errorf("before the caches are synced: %d %s", w.Code, w.Body)
	}
}

// TestPageQuery: a bad query is refused in one line.
func TestPageQuery(t *testing.T) {
	p := newTestPage(t, pageNow, variety()...)
	for query, want := range map[string]string{
		"state=sleepy":                         `state "sleepy": want asleep, awake, invalid, released or overdue`,
		"state=Asleep":                         `state "Asleep": want asleep, awake, invalid, released or overdue`,
		"state=unmanaged":                      `state "unmanaged": want asleep, awake, invalid, released or overdue`,
		"namespace=Shop":                       `namespace "Shop": want the name of a namespace`,
		"namespace=a/b":                        `namespace "a/b": want the name of a namespace`,
		"namespace=%3Cscript%3E%0d%0a":         `namespace "<script>\r\n": want the name of a namespace`,
		"namespace=" + strings.Repeat("a", 64): `namespace "` + strings.Repeat("a", 64) + `": want the name of a namespace`,
		"page=0":                               `page "0": want a number from 1`,
		"page=-1":                              `page "-1": want a number from 1`,
		"page=":                                `page "": want a number from 1`,
		"page=99999999999999999999":            `page "99999999999999999999": want a number from 1`,
		"state=asleep&state=awake":             `"state" is given more than once`,
		"ns=shop":                              `"ns" is not known; want namespace, state or page`,
		"state=%zz":                            "the query cannot be read; want e.g. ?namespace=shop&state=asleep&page=2",
		"a;b":                                  "the query cannot be read; want e.g. ?namespace=shop&state=asleep&page=2",
	} {
		for _, path := range []string{"/", "/schedule.json"} {
			w := ask(p, path+"?"+query)
			if got := w.Body.String(); w.Code != http.StatusBadRequest || got != want+"\n" {
				t.Errorf("%s?%s: %d %q", path, query, w.Code, got)
			}
			if got := w.Result().Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("%s?%s: %s", path, query, got)
			}
		}
	}
}

// names are those of the rows, for tests that look no further.
func names(t *testing.T, page string) string {
	t.Helper()
	var list []string
	inRow := false
	for _, e := range elements(t, page) {
		if e.name == "tr" {
			inRow = strings.HasPrefix(e.attrs["class"], "row")
		}
		if e.name == "bdi" && inRow {
			list = append(list, e.text)
			inRow = false
		}
	}
	return strings.Join(list, " ")
}

func TestPageFilters(t *testing.T) {
	p := newTestPage(t, pageNow, variety()...)
	for query, want := range map[string]string{
		"":                             "torn legacy etl grown never xmas changing kept-up late released sent-to-sleep web",
		"namespace=&state=":            "torn legacy etl grown never xmas changing kept-up late released sent-to-sleep web",
		"namespace=shop":               "legacy changing kept-up late released sent-to-sleep web",
		"state=asleep":                 "etl changing late sent-to-sleep web",
		"state=awake":                  "grown never xmas kept-up",
		"state=invalid":                "torn legacy",
		"state=overdue":                "etl late released",
		"state=released":               "released",
		"state=overdue&namespace=shop": "late released",
		"namespace=nothing-here":       "",
		"page=2":                       "",
	} {
		body := ask(p, "/?"+query).Body.String()
		if got := names(t, body); got != want {
			t.Errorf("?%s: %s, want %s", query, got, want)
		}
		var answer struct{ Rows []struct{ Name string } }
		if err := json.Unmarshal(ask(p, "/schedule.json?"+query).Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		list := []string{}
		for _, row := range answer.Rows {
			list = append(list, row.Name)
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("schedule.json?%s: %s, want %s", query, got, want)
		}
	}

	// The counts are the namespace's, whatever state is asked for; a tile keeps to it,
	// and the tile of the state that is shown leads back.
	body := ask(p, "/?namespace=shop&state=asleep").Body.String()
	for _, want := range []string{
		`<option value="shop" selected>`, `<option value="asleep" selected>`, `<option value="analytics">`,
		`<a class="asleep" href="?namespace=shop" aria-current="true"><b class="num">4</b>`,
		`<a class="invalid" href="?namespace=shop&amp;state=invalid"><b class="num">1</b>`,
		`<a href="./">Show all</a>`,
		`<a href="schedule.json?namespace=shop&amp;state=asleep">JSON</a>`,
		"4 Deployments",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	for query, want := range map[string]string{
		"?namespace=nothing-here":        `<p>No Deployment matches.</p>\s*<a href="./">Show all</a>`,
		"?page=2":                        `<p>There is no such page.</p>\s*<a href="./">First page</a>`,
		"?page=2&namespace=nothing-here": `<option value="nothing-here" selected>`,
	} {
		if body := ask(p, "/"+query).Body.String(); !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("%s: no %s", query, want)
		}
	}
	empty := ask(newTestPage(t, pageNow), "/").Body.String()
	for _, want := range []string{"<p>No Deployment has opted in yet.</p>", "kubectl annotate deployment", `<a href="schedule.json">`} {
		if !strings.Contains(empty, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestScheduleJSON: the rows are those of the plan command, and more.
func TestScheduleJSON(t *testing.T) {
	p := newTestPage(t, pageNow,
		workloadtest.Placed("shop", "web", workloadtest.Deployment(3, "window=20:00-07:00", "timezone=Europe/Berlin", "night-replicas=1")),
		workloadtest.Placed("shop", "legacy", workloadtest.Deployment(3, "window=</script>")),
	)
	w := ask(p, "/schedule.json")
	want := `{"at":"2026-11-27T20:30:00Z","totals":{"asleep":1,"awake":0,"invalid":1,"released":0,"overdue":1,"savedReplicas":0,"savedCPUCores":0,"savedMemoryBytes":0},` +
		`"found":2,"rows":[` +
		`{"namespace":"shop","name":"legacy","timezone":"","state":"invalid","replicas":3,"expected":0,"nightReplicas":0,` +
		`"error":"schedule-night.svc/window \"\u003c/script\u003e\": \"\u003c/script\u003e\" is not a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun or a date such as 2026-12-24","transitions":[],"overdue":false,"next":null},` +
		`{"namespace":"shop","name":"web","timezone":"Europe/Berlin","state":"asleep","replicas":3,"expected":3,"nightReplicas":1,"error":"",` +
		`"transitions":[{"at":"2026-11-28T06:00:00Z","to":"awake","replicas":3},{"at":"2026-11-28T19:00:00Z","to":"asleep","replicas":1}],"overdue":true,"next":"2026-11-28T06:00:00Z"}],"complete":true}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// hostile are texts that try to be something else than text.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`</title></style></svg><script src=//evil.example></script>`,
	`x" style="background:url(//evil.example)`,
	`}*{background:url(//evil.example)}/*`,
	`{{.Title}}{{template "x"}}`,
	`javascript:alert(1)`,
	`&lt;b&gt;&#60;b&#62;`,
	"\u202egnp.exe\u2066\u200f\u0000\x1b[31m",
	"<!--", "]]>", "%3Cscript%3E", "+ADw-script+AD4-",
	strings.Repeat("loooong", 1000),
}

func hostileDeployments() []*appsv1.Deployment {
	var list []*appsv1.Deployment
	for i, text := range hostile {
		list = append(list,
			workloadtest.Placed(text, text, workloadtest.Deployment(3)),
			workloadtest.Placed("in-name", text, workloadtest.Deployment(0)),
			workloadtest.Placed(text, fmt.Sprint("in-namespace-", i), workloadtest.Deployment(3, "asleep-until=2026-11-28T01:00:00Z")))
		for _, annotation := range []string{night.AnnotationOn, night.AnnotationExpected, night.AnnotationWindow, night.AnnotationTimezone, night.AnnotationExcept, night.AnnotationAwakeUntil, night.AnnotationDaytime, night.AnnotationWakeDelay} {
			name := strings.TrimPrefix(annotation, night.Prefix)
			list = append(list, workloadtest.Placed("in-annotation", fmt.Sprint(name, i), workloadtest.Deployment(3, name+"="+text)))
		}
	}
	return list
}

// TestPageHostile: texts from the cluster stay texts.
func TestPageHostile(t *testing.T) {
	p := newTestPage(t, pageNow, hostileDeployments()...)
	known := map[string]string{} // elements, with the attributes that they may have
	for _, e := range elements(t, regexp.MustCompile(`{{.*?}}`).ReplaceAllString(pageText, "")) {
		for name := range e.attrs {
			known[e.name] += name + " "
		}
		known[e.name] += " "
	}
	var seen strings.Builder
	links := regexp.MustCompile(`^(\./|(schedule\.json)?(\?[a-z0-9%=&+-]*)?|#(now|axis|ticks))$`)
	for page := 1; page <= 3; page++ {
		w := ask(p, fmt.Sprint("/?page=", page))
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, fmt.Sprintf("Page %d of ", page)) {
			t.Fatalf("page %d: %d", page, w.Code)
		}
		if strings.ContainsAny(body, "\x00\x1b\u202e\u2066\u200f") {
			t.Error("a character that is not printable")
		}
		for _, e := range elements(t, body) {
			attributes, ok := known[e.name]
			if !ok {
				t.Errorf("element %s", e.name)
			}
			for name, value := range e.attrs {
				if !strings.Contains(attributes, name+" ") || name == "style" || strings.HasPrefix(name, "on") {
					t.Errorf("attribute %s=%q of %s", name, value, e.name)
				}
				if name == "href" && !links.MatchString(value) {
					t.Errorf("a link to %s", value)
				}
			}
			if e.name != "style" {
				seen.WriteString(e.text)
			}
		}
		if styleHash(body) != styleHash(pageText) {
			t.Error("the style is not what it was")
		}
	}
	for _, text := range hostile[:9] { // and are there, unharmed
		if !strings.Contains(seen.String(), text) {
			t.Errorf("no %s", text)
		}
	}

	var answer struct{ Rows []outlook.Row }
	body := ask(p, "/schedule.json").Body.String()
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Rows) != len(hostileDeployments()) {
		t.Errorf("%d rows, error %v", len(answer.Rows), err)
	}
	if strings.ContainsAny(body, "<>\x00\x1b\u202e\u2066\u200f") {
		t.Error("characters in the JSON that something might act on")
	}
	if !slices.ContainsFunc(answer.Rows, func(r outlook.Row) bool { return r.Name == hostile[9] }) {
		t.Error("a name in the JSON is not what it was")
	}
}

// TestPageIsHTMLTemplate: html/template, which knows about contexts, makes the same of
// page.html as our own reading of its language does.
func TestPageIsHTMLTemplate(t *testing.T) {
	reference, err := htmltemplate.New("page.html").Parse(pageText)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Page{
		"variety": newTestPage(t, pageNow, variety()...),
		"hostile": newTestPage(t, pageNow, hostileDeployments()...),
		"empty":   newTestPage(t, pageNow),
	} {
		for _, query := range []pageQuery{{}, {page: 2}, {page: 99}, {namespace: "shop", state: string(outlook.Asleep)}, {state: stateOverdue}, {namespace: "in-annotation", page: 2}, {namespace: "no"}} {
			now := p.clock.Now()
			got, err := p.html(query, now)
			if err != nil {
				t.Fatal(err)
			}
			view := p.view(query, now)
			var want strings.Builder
			if err := reference.Execute(&want, view); err != nil {
				t.Fatal(err)
			}
			if string(got) != want.String() {
				a, b := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
				for i := range min(len(a), len(b)) {
					if a[i] != b[i] {
						t.Errorf("%s %+v:\ngot  %s\nwant %s", name, query, a[i], b[i])
						break
					}
				}
			}
		}
	}
}

// TestMarkupErrors: what a template must not use is an error, not silence.
func TestMarkupErrors(t *testing.T) {
	data := struct {
		Text   string
		hidden string
	}{"a", "b"}
	for _, text := range []string{"{{.Missing}}", "{{.hidden}}", "{{.Text.More}}", "{{.}}", "{{$}}", "{{len .Text}}", "{{.Text | print}}", `{{"x"}}`,
		"{{with .Text}}{{end}}", "{{$x := .Text}}", `{{block "b" .}}{{end}}`, "{{if .Missing}}{{end}}", "{{range .Missing}}{{end}}"} {
		func() {
			defer func() { _ = recover() }() // unknown functions do not even parse
			if out, err := mustParseMarkup("x", text).execute(data); err == nil {
				t.Errorf("%s: %q", text, out)
			}
		}()
	}
}

// fleet makes n Deployments in n/50 namespaces, as various as in life.
func fleet(n int) []*appsv1.Deployment {
	windows := []string{"21:00-07:00", "Mon-Fri 20:00-06:30, Sat, Sun 00:00-24:00", "Fri 18:00-24:00, Sat, Sun 00:00-24:00, Mon-Thu 22:00-06:00", "12:00-13:00, 22:00-05:00"}
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"}
	var list []*appsv1.Deployment
	for i := range n {
		list = append(list, workloadtest.Placed(fmt.Sprintf("team-%03d", i%(n/50)), fmt.Sprintf("service-%04d", i),
			workloadtest.Deployment(int32(i%4), "window="+windows[i/7%4], "timezone="+zones[i/3%4])))
	}
	return list
}

// asked counts what a page asks its source.
type asked struct {
	*cluster
	managed, decide int
}

func (a *asked) Managed(now time.Time) iter.Seq[outlook.Managed] {
	a.managed++
	return a.cluster.Managed(now)
}

func (a *asked) Decide(w *workload.Workload, at time.Time) outlook.Decision {
	a.decide++
	return a.cluster.Decide(w, at)
}

// TestPageOfThousands: of 5,000 rows, a page goes through all once and works out those
// that it shows.
func TestPageOfThousands(t *testing.T) {
	p := newTestPage(t, pageNow, fleet(5000)...)
	source := &asked{cluster: p.source.(*cluster)}
	p.source = source
	for target, rows := range map[string]int{"/": 100, "/?page=50": 100, "/?page=51": 0, "/?state=overdue": 100, "/?namespace=team-007": 50, "/schedule.json?page=2": 100} {
		source.managed, source.decide = 0, 0
		if w := ask(p, target); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		if source.managed != 1 || source.decide != rows {
			t.Errorf("%s: goes through all %d times, and works out %d, want %d", target, source.managed, source.decide, rows)
		}
	}
	body := ask(p, "/?page=2").Body.String()
	for _, want := range []string{"101–200 of 5000 Deployments", "Page 2 of 50", `<a href="./" rel="prev">`, `<a href="?page=3" rel="next">`, "team-002"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if got := strings.Count(body, `<tr role="row" class="row`); got != pageRows {
		t.Errorf("%d rows", got)
	}
	if len(body) > 200_000 {
		t.Errorf("%d bytes", len(body))
	}
	if last := ask(p, "/?page=50").Body.String(); strings.Contains(last, `rel="next"`) || !strings.Contains(last, `<a href="?page=49" rel="prev">`) {
		t.Error("the last page leads on, or not back")
	}
	if next := ask(p, "/?page=51").Body.String(); !strings.Contains(next, "There is no such page.") || !strings.Contains(next, `<a href="?page=50" rel="prev">`) {
		t.Error("the page after the last")
	}

	var answer struct {
		Found int
		Rows  []outlook.Row
	}
	for query, want := range map[string]int{"": 5000, "?page=2": 100, "?page=51": 0, "?namespace=team-007": 50} {
		if err := json.Unmarshal(ask(p, "/schedule.json"+query).Body.Bytes(), &answer); err != nil || len(answer.Rows) != want {
			t.Errorf("%s: %d rows, error %v", query, len(answer.Rows), err)
		}
	}
}

// TestPages: each Deployment is on one page.
func TestPages(t *testing.T) {
	p := newTestPage(t, pageNow, fleet(450)...)
	var seen []string
	for page := range 5 {
		seen = append(seen, strings.Fields(names(t, ask(p, fmt.Sprint("/?page=", page+1)).Body.String()))...)
	}
	slices.Sort(seen)
	if n := len(slices.Compact(slices.Clone(seen))); n != 450 || len(seen) != 450 {
		t.Errorf("%d Deployments in %d rows", n, len(seen))
	}
}

// TestPageContinued: a namespace that goes over pages says so.
func TestPageContinued(t *testing.T) {
	var list []*appsv1.Deployment
	for i := range 150 {
		list = append(list, workloadtest.Placed("shop", fmt.Sprintf("web-%03d", i), workloadtest.Deployment(3)))
	}
	p := newTestPage(t, pageNow, list...)
	for page, want := range map[int]string{1: "shop 150", 2: "shop 150, continued"} {
		if got := rowTexts(t, ask(p, fmt.Sprint("/?page=", page)).Body.String())[1]; got != want {
			t.Errorf("page %d: %q, want %q", page, got, want)
		}
	}
}

// TestPageManyChanges: windows with hundreds of items neither make an answer large nor
// hide the rows.
func TestPageManyChanges(t *testing.T) {
	const changes = 680 // a day: at 0:00, 0:01, and so on
	var items []string
	for minute := range changes / 2 {
		at := 2 * minute
		items = append(items, fmt.Sprintf("%02d:%02d-%02d:%02d", at/60, at%60, (at+1)/60, (at+1)%60))
	}
	window := "window=" + strings.Join(items, ",")
	page := func(n int) *Page {
		var list []*appsv1.Deployment
		for i := range n {
			list = append(list, workloadtest.Placed("shop", fmt.Sprintf("web-%03d", i), workloadtest.Deployment(3, window)))
		}
		return newTestPage(t, pageNow, list...)
	}

	drawn := (pageChanges + changes - 1) / changes
	rows := rowTexts(t, ask(page(drawn+2), "/").Body.String())[2:]
	if len(rows) != drawn+2 {
		t.Errorf("%d rows", len(rows))
	}
	for i, row := range rows {
		want := "awake 3 of 3 replicas sleeps in 3 h 30 min Sat 00:00"
		if i >= drawn {
			want += " too many changes to draw"
		}
		if !strings.HasSuffix(row, want) {
			t.Errorf("row %d: …%s", i, row[max(0, len(row)-100):])
		}
	}

	told := (jsonChanges + changes - 1) / changes
	var answer struct {
		Complete bool
		Rows     []pageRow
	}
	if err := json.Unmarshal(ask(page(told+2), "/schedule.json").Body.Bytes(), &answer); err != nil || answer.Complete || len(answer.Rows) != told+2 {
		t.Errorf("complete %v, %d rows, error %v", answer.Complete, len(answer.Rows), err)
	}
	for i, row := range answer.Rows {
		want := changes
		if i >= told {
			want = 0
		}
		if len(row.Transitions) != want || row.Next == nil {
			t.Errorf("row %d: %d transitions, next %v", i, len(row.Transitions), row.Next)
		}
	}
}

// TestPageTicks: the axis shows full hours of its zone, also over clock changes.
func TestPageTicks(t *testing.T) {
	zone, err := night.ParseLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[string]string{
		// Clocks go from 02:00 to 03:00: from Sun to 03:00 are two hours.
		"2026-03-28T20:00:00Z": "7.69% 19.23%=Sun 26.92%=03:00 38.46%=06:00 50.00%=09:00 61.54%=12:00 73.08%=15:00 84.62%=18:00 96.15%=21:00",
		// And back from 03:00 to 02:00: four.
		"2026-10-24T20:00:00Z": "3.85% 15.38%=Sun 30.77%=03:00 42.31%=06:00 53.85%=09:00 65.38%=12:00 76.92%=15:00 88.46%=18:00",
		"2026-11-27T19:41:07Z": "8.90% 20.44%=Sat 31.98%=03:00 43.52%=06:00 55.06%=09:00 66.60%=12:00 78.13%=15:00 89.67%=18:00",
	} {
		var got []string
		for _, tick := range ticks(nighttest.Time(t, now), zone) {
			text := tick.X
			if tick.Text != "" {
				text += "=" + tick.Text
			}
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %s\nwant %s", now, got, want)
		}
	}
}

func TestPageUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1 min", time.Minute: "1 min", 61 * time.Second: "2 min", time.Hour - time.Second: "1 h", time.Hour: "1 h",
		90 * time.Minute: "1 h 30 min", 24 * time.Hour: "1 d", 25*time.Hour + time.Minute: "1 d 1 h", 366 * 24 * time.Hour: "366 d",
	} {
		if got := inUnits(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// TestPageAutoscaler: the night's count is what the autoscaler makes of the annotation.
func TestPageAutoscaler(t *testing.T) {
	p := newTestPage(t, pageNow, workloadtest.Placed("default", "web", workloadtest.Deployment(3, "window=20:00-07:00", "night-replicas=1")))
	p.source.(*cluster).autoscalers["default/web"] = workload.NewAutoscaler(workloadtest.HPAFor("web", 2))
	if got := ask(p, "/schedule.json").Body.String(); !strings.Contains(got, `"nightReplicas":2`) {
		t.Error(got)
	}
}

// TestPageMisspelt: what has no effect is told where it stands, also beside what is invalid.
func TestPageMisspelt(t *testing.T) {
	const note = `<span class="sub note"><bdi>schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant</bdi></span>`
	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		want int
	}{
		"managed":  {workloadtest.Deployment(3, "timeZone=Europe/Berlin"), 1},
		"invalid":  {workloadtest.Deployment(3, "timeZone=Europe/Berlin", "window=x"), 1},
		"right":    {workloadtest.Deployment(3, "timezone=Europe/Berlin"), 0},
		"released": {workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0, "timeZone=Europe/Berlin")), "on"), 0},
	} {
		page := ask(newTestPage(t, pageNow, tc.d), "/").Body.String()
		if got := strings.Count(page, note); got != tc.want || !strings.Contains(page, ">web<") {
			t.Errorf("%s: told %d times, want %d", name, got, tc.want)
		}
	}
}

// TestForEver: an instant that no JSON can have, of one tenant, costs nobody the page.
func TestForEver(t *testing.T) {
	p := newTestPage(t, pageNow, workloadtest.Deployment(3, "awake-until=9999-12-31T23:59:59-23:59", "asleep-until=9999-12-31T23:59:59-23:59"),
		workloadtest.Placed("default", "other", workloadtest.Deployment(3)))
	for _, target := range []string{"/schedule.json", "/"} {
		if w := ask(p, target); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
