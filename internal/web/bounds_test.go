package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"schedule-night/internal/outlook"
)

// network is a listener whose connections are pipes, so that the time of a test is the
// bubble's own.
type network struct {
	incoming chan net.Conn
	closed   chan struct{}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.incoming:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { close(n.closed); return nil }
func (n *network) Addr() net.Addr { return address("server:8080") }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// from is a connection as the server sees it.
type from struct {
	net.Conn
	address
}

func (f from) RemoteAddr() net.Addr { return f.address }

// client is the other end. What comes is read only when a test does.
type client struct {
	net.Conn
	answers *bufio.Reader
}

func (n *network) dial(host string) *client {
	here, there := net.Pipe()
	n.incoming <- from{there, address(host + ":40000")}
	return &client{here, bufio.NewReader(here)}
}

// ask is the status of the answer to a request, 0 if there is none.
func (c *client) ask(request string) int {
	if _, err := io.WriteString(c, request); err != nil {
		return 0
	}
	return c.status()
}

// status is that of the answer that comes next, 0 if none does.
func (c *client) status() int {
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// gone tells how long it takes until the server has closed the connection.
func (c *client) gone() time.Duration {
	begun := time.Now()
	_, _ = io.Copy(io.Discard, c.answers)
	return time.Since(begun)
}

const getLivez = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"

// serving serves in a bubble, until the test ends.
func serving(t *testing.T, handler http.Handler, test func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{make(chan net.Conn), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Serve(ctx, n, handler) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // of the bubble: the server takes its time to hang up
		}()
		test(t, n)
	})
}

// TestPatience: a connection that does not get on is closed.
func TestPatience(t *testing.T) {
	for name, test := range map[string]struct {
		sends string
		reads bool
		want  time.Duration
	}{
		"nothing":          {"", true, headerPatience},
		"half a request":   {"GET /livez HTTP/1.1\r\nHost:", true, headerPatience},
		"no body":          {"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", true, requestPatience},
		"the next request": {getLivez + getLivez, true, 0},
		"reads nothing":    {"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", false, requestPatience},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("/", NewHandler(nil, nil, nil))
			mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
			serving(t, mux, func(t *testing.T, n *network) {
				c := n.dial("10.0.0.1")
				go func() { _, _ = io.WriteString(c, test.sends) }() // the next request is not read
				if !test.reads {
					time.Sleep(test.want + time.Second)
				}
				if got := c.gone(); test.reads && (got < test.want || got > test.want+time.Second) || !test.reads && got > 0 {
					t.Errorf("closed after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestHeaders: what a proxy adds gets through, and no more.
func TestHeaders(t *testing.T) {
	for size, want := range map[int]int{8 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		text := strings.Repeat("x", size)
		for name, request := range map[string]string{
			"a cookie": "GET /livez HTTP/1.1\r\nHost: x\r\nCookie: " + text + "\r\n\r\n",
			"a URL":    "GET /livez?" + text + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"headers":  "GET /livez HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: b\r\n", size/6) + "\r\n",
		} {
			serving(t, NewHandler(nil, nil, nil), func(t *testing.T, n *network) {
				c := n.dial("10.0.0.1")
				go func() { _, _ = io.WriteString(c, request) }() // it is not read to its end
				if got := c.status(); got != want {
					t.Errorf("%s of %d bytes: %d, want %d", name, size, got, want)
				}
				c.Close()
			})
		}
	}
}

// TestConnections: those who hold many lose the oldest, and nobody is kept out.
func TestConnections(t *testing.T) {
	serving(t, NewHandler(nil, nil, nil), func(t *testing.T, n *network) {
		kubelet := n.dial("10.0.0.2")
		var attack []*client
		open := map[*client]bool{}
		closed := make(chan *client, 2000)
		more := func(count int) {
			for range count {
				c := n.dial("10.0.0.1")
				attack, open[c] = append(attack, c), true
				go func() { c.gone(); closed <- c }()
			}
			for synctest.Wait(); ; synctest.Wait() {
				select {
				case c := <-closed:
					delete(open, c)
				default:
					return
				}
			}
		}
		more(maxConnections - 1)
		if len(open) != maxConnections-1 {
			t.Errorf("%d of the attacker's are open before there are too many", len(open))
		}
		more(1000)
		if len(open) != maxConnections-1 {
			t.Errorf("%d of the attacker's are open, want %d", len(open), maxConnections-1)
		}
		for _, c := range attack[1000:] {
			if !open[c] {
				t.Fatal("a newer one was closed before an older one")
			}
		}
		if code := kubelet.ask(getLivez); code != http.StatusOK { // it was there first
			t.Errorf("on the kubelet's connection: %d", code)
		}
		for _, host := range []string{"10.0.0.2", "10.0.0.1", "10.0.0.3"} {
			if code := n.dial(host).ask(getLivez); code != http.StatusOK {
				t.Errorf("on a new connection from %s: %d", host, code)
			}
		}
		time.Sleep(headerPatience + time.Second)
		more(0)
		if len(open) != 0 {
			t.Errorf("%d are open after all patience", len(open))
		}
		more(maxConnections) // what was closed, here or there, does not count any more
		if len(open) != maxConnections {
			t.Errorf("%d of %d are open", len(open), maxConnections)
		}
	})
}

// slow is a handler of answers that are made when the test says so.
type slow struct {
	proceed chan struct{}
	made    atomic.Int32
}

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.made.Add(1)
	select {
	case <-s.proceed:
	case <-r.Context().Done():
	}
	w.Header().Set("X-Made", fmt.Sprint(n))
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintln(w, r.URL.RawQuery)
}

// asking asks a handler in the background.
func asking(handler http.Handler, target string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		done <- w
	}()
	synctest.Wait()
	return done
}

func newSlow(limit int) (*answers, *slow) {
	s := &slow{proceed: make(chan struct{})}
	return &answers{handler: s, key: func(r *http.Request) string { return r.URL.RawQuery }, limit: limit, turn: newTurn()}, s
}

// TestAnswersShared: those who come while an answer is made wait for the next, which is
// made once for all of them: nobody gets one that is older than the question.
func TestAnswersShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlow(100)
		var waiting []<-chan *httptest.ResponseRecorder
		for range 100 {
			waiting = append(waiting, asking(a, "/?a"))
		}
		if s.made.Load() != 1 {
			t.Errorf("%d at a time", s.made.Load())
		}
		close(s.proceed)
		for i, done := range waiting {
			w := <-done
			want := "2"
			if i == 0 {
				want = "1"
			}
			if w.Code != http.StatusAccepted || w.Body.String() != "a\n" || w.Header().Get("X-Made") != want {
				t.Errorf("request %d: %d %s %v", i, w.Code, w.Body, w.Header())
			}
		}
		if a.last != nil || a.inFlight != 0 || a.waiting != 0 {
			t.Errorf("it keeps %v, %d in flight, %d waiting", a.last, a.inFlight, a.waiting)
		}
		if w := <-asking(a, "/?a"); w.Header().Get("X-Made") != "3" {
			t.Errorf("who comes later gets answer %s", w.Header().Get("X-Made"))
		}
	})
}

// TestAnswersDiffer: what was asked otherwise is answered otherwise.
func TestAnswersDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlow(100)
		first, b, c := asking(a, "/?a"), asking(a, "/?b"), asking(a, "/?c")
		close(s.proceed)
		for query, done := range map[string]<-chan *httptest.ResponseRecorder{"a\n": first, "b\n": b, "c\n": c} {
			if got := (<-done).Body.String(); got != query {
				t.Errorf("%q, want %q", got, query)
			}
		}
	})
}

// TestAnswersInFlight: too many at once are told so, and who has gone does not count.
func TestAnswersInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlow(3)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		first := asking(a, "/?a")
		go func() {
			defer close(gone)
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?b", nil).WithContext(ctx))
		}()
		third := asking(a, "/?c")
		for range 100 {
			select {
			case w := <-asking(a, "/?d"):
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Body.String() != "too many requests at once\n" {
					t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
				}
			default:
				t.Fatal("more are in flight than may be")
			}
		}
		cancel()
		<-gone
		fourth := asking(a, "/?d")
		close(s.proceed)
		for _, done := range []<-chan *httptest.ResponseRecorder{first, third, fourth} {
			if w := <-done; w.Code != http.StatusAccepted {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if s.made.Load() != 3 || a.last != nil || a.inFlight != 0 || a.waiting != 0 {
			t.Errorf("%d were made; it keeps %v, %d in flight, %d waiting", s.made.Load(), a.last, a.inFlight, a.waiting)
		}
	})
}

// TestReadersWhoDoNotRead: they keep nobody else waiting, and no more than may be in flight.
func TestReadersWhoDoNotRead(t *testing.T) {
	for path, limit := range map[string]int{"/": pageInFlight, "/schedule.json": jsonInFlight, "/metrics": metricsInFlight} {
		p := newTestPage(t, pageNow, fleet(50)...) // more than a buffer takes
		serving(t, NewHandler(nil, nil, p), func(t *testing.T, n *network) {
			request := "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"
			for i := range limit {
				if code := n.dial("10.0.0.2").ask(request); code != http.StatusOK {
					t.Errorf("%s beside %d who do not read: %d", path, i, code)
				}
				synctest.Wait() // until it is no longer in flight
				if _, err := io.WriteString(n.dial("10.0.0.1"), request); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if code := n.dial("10.0.0.2").ask(request); code != http.StatusServiceUnavailable {
				t.Errorf("%s beside %d who do not read: %d", path, limit, code)
			}
			for _, other := range slices.DeleteFunc([]string{"/", "/schedule.json", "/metrics", "/livez", "/readyz"}, func(other string) bool { return other == path }) {
				if code := n.dial("10.0.0.2").ask("GET " + other + " HTTP/1.1\r\nHost: x\r\n\r\n"); code != http.StatusOK {
					t.Errorf("%s while %s is busy: %d", other, path, code)
				}
			}
			time.Sleep(requestPatience + time.Second)
			if code := n.dial("10.0.0.2").ask(request); code != http.StatusOK {
				t.Errorf("%s when patience is over: %d", path, code)
			}
		})
	}
}

// stopped is a source that waits until the test goes on.
type stopped struct {
	*cluster
	proceed chan struct{}
}

func (s *stopped) Managed(now time.Time) iter.Seq[outlook.Managed] {
	<-s.proceed
	return s.cluster.Managed(now)
}

// TestWhoShares: who waits for the same gets the same, and nobody what was not asked for.
// While the page is made, the others wait for their turn.
func TestWhoShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPage(t, pageNow, variety()...)
		source := &stopped{p.source.(*cluster), make(chan struct{})}
		p.source = source
		handler := NewHandler(nil, nil, p)
		asking(handler, "/")
		waiting := map[string]<-chan *httptest.ResponseRecorder{}
		for _, target := range []string{"/?state=awake", "/?state=asleep", "/schedule.json?state=awake", "/schedule.json?state=asleep", "/metrics", "/metrics?name[]=go_threads"} {
			waiting[target] = asking(handler, target)
		}
		const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
		other := asking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Accept", protobuf)
			r.Header.Set("Accept-Encoding", "gzip") // which is not worth its cost
			handler.ServeHTTP(w, r)
		}), "/metrics")
		for _, path := range []string{"/livez", "/readyz"} {
			if w := <-asking(handler, path); w.Code != http.StatusOK {
				t.Errorf("%s waits: %d", path, w.Code)
			}
		}
		for target, done := range waiting {
			if len(done) > 0 {
				t.Errorf("%s does not wait for its turn", target)
			}
		}
		close(source.proceed)
		bodies := map[string]string{}
		for target, done := range waiting {
			w := <-done
			if bodies[w.Body.String()] != "" || w.Code != http.StatusOK {
				t.Errorf("%s: %d, and what %q got", target, w.Code, bodies[w.Body.String()])
			}
			bodies[w.Body.String()] = target
			if text := w.Header().Get("Content-Type"); strings.HasPrefix(target, "/metrics") && !strings.HasPrefix(text, "text/plain") {
				t.Errorf("%s: %s", target, text)
			}
		}
		if header := (<-other).Header(); !strings.HasPrefix(header.Get("Content-Type"), "application/vnd.google.protobuf") || header.Get("Content-Encoding") != "" {
			t.Errorf("/metrics as protobuf: %v", header)
		}
	})
}

// TestSendBuffer: the kernel does not take megabytes for who does not read.
func TestSendBuffer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	stuck := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(stuck)
			control := http.NewResponseController(w)
			for range 1000 { // until nothing is taken for a while
				if err := control.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
					t.Error(err)
				}
				n, err := w.Write(make([]byte, 64<<10))
				if taken.Add(int64(n)); err != nil {
					return
				}
			}
		}))
	}()
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, getLivez); err != nil {
		t.Fatal(err)
	}
	<-stuck
	if got := taken.Load(); got > 8*sendBuffer {
		t.Errorf("%d kB were taken that nobody has read", got>>10)
	}
	t.Logf("%d kB", taken.Load()>>10)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
