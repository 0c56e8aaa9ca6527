package queue

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

const (
	// slow is how long a pass may take before it counts as trouble of its namespace, whose
	// writes may hang. A write takes a few milliseconds, one that hangs 10 seconds.
	slow = 250 * time.Millisecond
	// freshPasses is how many passes a namespace has at a time of which nothing is known.
	// Each quick write allows one more: so a healthy namespace has all places after a few
	// milliseconds, and one that hangs costs few of them until that is seen.
	freshPasses = 4
	// troubledPasses is how many passes a namespace in trouble may have at a time, however
	// many share its lot; troubledInAll is how many all of these together may, were there
	// fewer places than that. They bound the goroutines, and what hangs at the API server.
	troubledPasses = 2
	troubledInAll  = 32
	// troubleKept is how long trouble is remembered of a namespace without keys: longer than
	// any pause after a failure.
	troubleKept = 2 * maxBackoff

	// secondEvery is how often a key of the second band is handed out while there are some in
	// the first. Were it never, a tenant who edits without rest would keep everybody's records
	// from being written. At a boundary it costs a few writes in a hundred.
	secondEvery = 100 * time.Millisecond

	// wake is no key, as none is empty. It is handed out to workers that wait although a
	// key has become ready without having been added: nothing else wakes them.
	wake = ""
)

// gate is the storage of a Queue: it decides which key is handed out next, and when. The
// workqueue calls Push, Len and Pop under its own lock, which the gate never takes.
//
// Keys wait in two bands. In each the namespaces take turns, so that thousands of keys in
// one do not delay another's. A pass that becomes slow puts its namespace in trouble, and
// loses its place to another worker. From then on the passes of that namespace take no
// places: those in trouble share among them as many passes as there are places. So whatever
// hangs, a place is held up for no longer than slow; and where all writes are slow but
// succeed, as many are sent at a time as ever.
type gate struct {
	clock clock.PassiveClock
	began chan struct{} // a pass has begun while nobody watched

	mu       sync.Mutex
	places   int              // for passes of namespaces without trouble; 0: no limits yet
	spawn    func()           // starts a worker
	deferred sets.Set[string] // keys that belong into the second band
	rooms    map[string]*room // by namespace: those with keys, passes or trouble
	trouble  sets.Set[*room]  // those in trouble
	turns    [2]fifo[*room]   // whose turn it is, by band; some may have nothing ready
	keys     int              // that wait
	urgent   int              // of them, those in the first band without trouble
	ready    [2]int           // of them, those that may be handed out, by band
	second   time.Time        // when a key of the second band was handed out, or became the first there
	passes   map[string]pass  // those that run, by key
	share    int              // passes at a time of each room in trouble
	lent     int              // passes that hold no place
	ended    time.Time        // when a pass last ended
	watched  bool             // somebody will see when a pass becomes slow
	waking   bool             // wake waits to be handed out
	wakes    int              // how often it is to be handed out after that
}

// room is a namespace's.
type room struct {
	namespace string
	keys      [2]fifo[string] // that wait, by band
	waiting   int             // how many of them the gate counts
	urgent    int             // as urgent
	ready     [2]int          // as ready
	turn      [2]bool         // it stands in the gate's turns
	passes    int             // that run
	limit     int             // of passes at a time, while not in trouble
	troubled  bool
	slowAt    time.Time // when a pass was last seen to be slow
}

func (r *room) idle() bool { return r.passes == 0 && r.keys[0].len()+r.keys[1].len() == 0 }

// pass is about a key that was handed out and is not done.
type pass struct {
	room  *room
	begun time.Time
	wrote bool // it has sent a write
	lent  bool // it holds no place
	owes  bool // from the start; nobody works there in its stead yet
}

// fifo is a queue; the zero value is empty.
type fifo[T any] struct {
	items []T
	head  int // those before it have been taken
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(item T) {
	if f.head > len(f.items)/2 { // move what is left instead of growing
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() T {
	var none T
	item := f.items[f.head]
	f.items[f.head] = none // let go of it
	f.head++
	return item
}

var _ workqueue.Queue[string] = &gate{}

func newGate(clk clock.PassiveClock) *gate {
	return &gate{
		clock:    clk,
		began:    make(chan struct{}, 1),
		deferred: sets.New[string](),
		rooms:    map[string]*room{},
		trouble:  sets.New[*room](),
		passes:   map[string]pass{},
	}
}

// open sets the limits. Spawn is called under the gate's lock.
func (g *gate) open(places int, spawn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places, g.spawn = places, spawn
	for _, r := range g.rooms {
		r.limit = min(freshPasses, places)
		g.settle(r)
	}
}

// Touch is called for a key that is added while it waits: it keeps its place.
func (g *gate) Touch(string) {}

// Push adds a key to its band.
func (g *gate) Push(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if key == wake {
		g.waking = true
		return
	}
	band := 0
	if g.deferred.Has(key) {
		band = 1
	}
	r := g.room(key)
	idle := r.idle()
	r.keys[band].push(key)
	if idle && r.troubled {
		g.divide()
	}
	g.settle(r)
}

// room is that of the key's namespace.
func (g *gate) room(key string) *room {
	namespace, _, _ := strings.Cut(key, "/")
	r, ok := g.rooms[namespace]
	if !ok {
		r = &room{namespace: namespace, limit: min(freshPasses, g.places)}
		g.rooms[namespace] = r
	}
	return r
}

// Len is how often Pop can be called: the workqueue's workers wait while it is 0.
func (g *gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.ready[0] + g.ready[1]
	if g.waking {
		n++
	}
	return n
}

// Pop takes a key from the second band when none in the first is ready, and now and then.
func (g *gate) Pop() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waking {
		g.waking = false
		return wake
	}
	r, band := g.nextTurn()
	key := r.keys[band].pop()
	g.passes[key] = pass{room: r, begun: g.clock.Now(), lent: r.troubled, owes: r.troubled}
	r.passes++
	if r.troubled {
		g.lent++
		g.divide() // it may have been the last that may run
	} else if !g.watched {
		g.watched = true
		select {
		case g.began <- struct{}{}:
		default:
		}
	}
	g.settle(r)
	return key
}

// nextTurn is the room whose turn it is, and in which band.
func (g *gate) nextTurn() (*room, int) {
	now := g.clock.Now()
	bands := [...]int{0, 1}
	if now.Sub(g.second) >= secondEvery {
		bands = [...]int{1, 0}
	}
	for _, band := range bands {
		for g.ready[band] > 0 {
			r := g.turns[band].pop()
			r.turn[band] = false
			if r.ready[band] == 0 {
				continue
			}
			if band == 1 {
				g.second = now
			}
			return r, band
		}
	}
	// Since Len was called, what was ready has ceased to be: another pass was slow. The
	// workqueue takes a key all the same, so that one runs beyond the limits.
	for _, r := range g.rooms {
		for band := range r.keys {
			if r.keys[band].len() > 0 {
				return r, band
			}
		}
	}
	panic("queue: no key waits") // Len was 0
}

// settle counts the keys of a room, after anything has changed about it.
func (g *gate) settle(r *room) {
	waiting, urgent := r.keys[0].len()+r.keys[1].len(), 0
	if !r.troubled {
		urgent = r.keys[0].len()
	}
	g.keys += waiting - r.waiting
	g.urgent += urgent - r.urgent
	r.waiting, r.urgent = waiting, urgent
	open := g.mayBegin(r)
	for band := range r.keys {
		n := 0
		if open {
			n = r.keys[band].len()
		}
		if band == 1 && n > 0 && g.ready[1] == 0 {
			g.second = g.clock.Now()
		}
		g.ready[band] += n - r.ready[band]
		r.ready[band] = n
		if n > 0 && !r.turn[band] {
			r.turn[band] = true
			g.turns[band].push(r)
		}
	}
	if r.idle() && !r.troubled {
		delete(g.rooms, r.namespace)
	}
}

// mayBegin tells whether one more pass of a room may begin.
func (g *gate) mayBegin(r *room) bool {
	switch {
	case g.places == 0:
		return true
	case r.troubled:
		return r.passes < g.share && g.lent < g.maxTroubled()
	default:
		return r.passes < r.limit
	}
}

func (g *gate) maxTroubled() int { return max(troubledInAll, g.places) }

// divide divides what those in trouble may have among those of them that have keys, and
// forgets trouble that is long ago.
func (g *gate) divide() {
	now := g.clock.Now()
	busy := 0
	for r := range g.trouble {
		switch {
		case !r.idle():
			busy++
		case now.Sub(r.slowAt) > troubleKept:
			g.heal(r)
			g.settle(r)
		}
	}
	g.share = max(troubledPasses, g.places/max(busy, 1))
	for r := range g.trouble {
		g.settle(r)
	}
}

// afflict puts a room in trouble.
func (g *gate) afflict(r *room, now time.Time) {
	r.troubled, r.slowAt = true, now
	g.trouble.Insert(r)
}

// heal makes a room one of which nothing is known.
func (g *gate) heal(r *room) {
	r.troubled, r.limit = false, min(freshPasses, g.places)
	g.trouble.Delete(r)
}

// lend takes the places of passes that have become slow, for workers that it starts, and
// puts their namespaces in trouble. It returns how long until the next pass may be slow, 0
// if none runs that holds a place. While twice as many have lost their places as those in
// trouble may have passes, the others keep theirs, and it looks again.
func (g *gate) lend() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	var next time.Duration
	for key, p := range g.passes {
		if p.lent {
			continue
		}
		left := slow - now.Sub(p.begun)
		if left <= 0 {
			g.afflict(p.room, now)
			if g.lent < 2*g.maxTroubled() {
				p.lent = true
				g.passes[key] = p
				g.lent++
				g.spawn()
				continue
			}
			left = slow
		}
		if next == 0 || left < next {
			next = left
		}
	}
	g.divide()
	g.watched = next > 0
	return next
}

// wrote notes that the pass over a key sends a write.
func (g *gate) wrote(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.passes[key]; ok {
		p.wrote = true
		g.passes[key] = p
	}
}

// cede starts a worker in the stead of one whose pass holds no place from the start.
func (g *gate) cede(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.passes[key]; p.owes {
		p.owes = false
		g.passes[key] = p
		g.spawn()
	}
}

// leave notes that the pass over a key is over. It tells whether that held a place until
// now, and whether workers must be woken: the one that leaves comes for one key itself if
// it has its place, but more may have become ready.
func (g *gate) leave(key string) (held, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.passes[key]
	if !ok {
		return true, false
	}
	delete(g.passes, key)
	r := p.room
	r.passes--
	if p.lent {
		g.lent--
	}
	was := r.troubled
	now := g.clock.Now()
	g.ended = now
	switch quick := now.Sub(p.begun) < slow; {
	case !quick:
		g.afflict(r, now)
	case p.wrote && r.troubled:
		g.heal(r)
	case p.wrote && r.limit < g.places:
		r.limit++
		more = true
	}
	if p.lent || was || r.troubled {
		more = true
		g.divide()
	}
	g.settle(r)
	if n := g.ready[0] + g.ready[1]; more && n > 0 {
		g.wakes = max(g.wakes, min(n, g.places))
		return !p.lent, true
	}
	return !p.lent, false
}

// wakeNext tells whether another worker is to be woken.
func (g *gate) wakeNext() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wakes == 0 {
		return false
	}
	g.wakes--
	return true
}

// stuck tells whether no pass can begin because of passes that have run for longer than
// timeout: they hold all places, or keys wait, may not be handed out, and none has ended.
func (g *gate) stuck(timeout time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	old, inPlace := 0, 0
	for _, p := range g.passes {
		if now.Sub(p.begun) <= timeout {
			continue
		}
		old++
		if !p.lent {
			inPlace++
		}
	}
	if old == 0 {
		return false
	}
	held := g.keys > 0 && g.ready[0]+g.ready[1] == 0
	return inPlace >= g.places || held && old == len(g.passes) && now.Sub(g.ended) > timeout
}

// mark has the key deferred or not.
func (g *gate) mark(key string, deferred bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if deferred {
		g.deferred.Insert(key)
	} else {
		g.deferred.Delete(key)
	}
}
