package web

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// Requests in flight, by path. An answer that is not read is in flight until the server's
// patience is over, so these bound the memory too: that of schedule.json has megabytes.
const (
	metricsInFlight = 8
	pageInFlight    = 16
	jsonInFlight    = 4
)

// turn is held while an answer is made: readers, however many, take at most one CPU from
// the workers, and the garbage of one answer.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// answers serves what takes work to make. All who wait for the same have it made once. It
// is made before it is sent, so that a reader who does not read keeps nobody waiting.
type answers struct {
	handler http.Handler // makes an answer, of the same to all requests with the same key
	key     func(*http.Request) string
	limit   int // of requests in flight
	turn    turn

	mu       sync.Mutex
	arrivals uint64
	inFlight int
	waiting  int     // of these, for their turn
	last     *answer // what was made last; nil if nobody waits
}

// ServeHTTP implements http.Handler.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrival, ok := a.enter()
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		return
	}
	defer a.leave()
	made := a.await(r, arrival)
	if made == nil {
		return
	}
	maps.Copy(w.Header(), made.header)
	w.Header().Set("Content-Length", strconv.Itoa(made.Len()))
	w.WriteHeader(made.code)
	_, _ = w.Write(made.Bytes()) // the reader has gone
}

func (a *answers) enter() (arrival uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight == a.limit {
		return 0, false
	}
	a.inFlight++
	a.waiting++
	a.arrivals++
	return a.arrivals, true
}

func (a *answers) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
}

// await waits for the turn, and makes an answer unless one has been begun since the
// request came. It is nil if the reader has gone.
func (a *answers) await(r *http.Request, arrival uint64) (made *answer) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-r.Context().Done():
		a.keep(nil)
		return nil
	}
	defer func() { a.keep(made) }() // before the turn is the next one's
	a.mu.Lock()
	last, arrivals := a.last, a.arrivals
	a.mu.Unlock()
	key := a.key(r)
	if last != nil && last.key == key && last.arrivals >= arrival {
		return last
	}
	fresh := &answer{key: key, arrivals: arrivals, code: http.StatusOK, header: http.Header{}}
	a.handler.ServeHTTP(fresh, r)
	return fresh
}

// keep ends a request's wait, and keeps what was made for those who still wait.
func (a *answers) keep(made *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if made != nil {
		a.last = made
	}
	if a.waiting--; a.waiting == 0 {
		a.last = nil
	}
}

// answer is one that was made, to be sent. It is an http.ResponseWriter.
type answer struct {
	bytes.Buffer // the body

	key      string
	arrivals uint64 // by the time that it was begun
	code     int
	header   http.Header
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }
