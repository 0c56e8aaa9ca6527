package queue

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// site is a Queue at work, whose passes take as long as the test says.
type site struct {
	*Queue
	t *testing.T

	mu      sync.Mutex
	takes   func(key string) time.Duration // of a pass
	write   func(key string) bool          // whether it writes
	again   bool                           // keys whose pass was slow come back
	running map[string]int                 // by namespace, and "all"
	most    map[string]int
	done    []string
}

// work begins, in a synctest bubble. Each pass writes and takes 5 ms.
func work(t *testing.T, places int) *site {
	s := newSite(t)
	s.begin(places)
	return s
}

func newSite(t *testing.T) *site {
	s := &site{Queue: New(clock.RealClock{}), t: t, running: map[string]int{}, most: map[string]int{}}
	s.hang() // nothing
	s.write = func(string) bool { return true }
	return s
}

func (s *site) begin(places int) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Work(places, s.pass)
	}()
	s.t.Cleanup(func() {
		s.ShutDown()
		<-over
		if len(s.gate.passes) != 0 || s.gate.lent != 0 {
			s.t.Errorf("at the end %d passes, %d of them lent", len(s.gate.passes), s.gate.lent)
		}
	})
	synctest.Wait()
}

func (s *site) pass(key string) {
	namespace, _, _ := strings.Cut(key, "/")
	s.mu.Lock()
	takes := s.takes(key)
	if s.write(key) {
		s.Wrote(key)
	}
	for _, of := range []string{namespace, "all"} {
		s.running[of]++
		s.most[of] = max(s.most[of], s.running[of])
	}
	s.mu.Unlock()
	time.Sleep(takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[namespace]--
	s.running["all"]--
	s.done = append(s.done, key)
	if s.again && takes >= slow {
		s.Add(key)
	}
}

// hang has the passes over these namespaces take ten seconds.
func (s *site) hang(namespaces ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = func(key string) time.Duration {
		if namespace, _, _ := strings.Cut(key, "/"); slices.Contains(namespaces, namespace) {
			return 10 * time.Second
		}
		return 5 * time.Millisecond
	}
}

func (s *site) add(namespace string, n int) {
	for i := range n {
		s.Add(fmt.Sprintf("%s/%d", namespace, i))
	}
}

// atMost is how many passes have run at a time, since it was last called, and how many
// have ended since the beginning.
func (s *site) atMost(of string) (most, done int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	most = s.most[of]
	s.most[of] = s.running[of]
	return most, len(s.done)
}

func (s *site) expect(of string, want int) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.running[of]; got != want {
		s.t.Errorf("%d passes of %s run, want %d", got, of, want)
	}
}

// TestFifo: in order, and without growing while what was pushed is taken.
func TestFifo(t *testing.T) {
	var f fifo[int]
	pushed, taken := 0, 0
	for _, n := range []int{1, 5, 2, 0, 7, 3} { // as many are left each time
		for f.len() < 7 {
			f.push(pushed)
			pushed++
		}
		for f.len() > n {
			if got := f.pop(); got != taken {
				t.Errorf("got %d, want %d", got, taken)
			}
			taken++
		}
	}
	for range 1000 {
		f.push(pushed)
		pushed++
		if got := f.pop(); got != taken {
			t.Errorf("got %d, want %d", got, taken)
		}
		taken++
	}
	if f.len() != 3 || cap(f.items) > 32 {
		t.Errorf("%d are left, with room for %d", f.len(), cap(f.items))
	}
}

// TestTurns: namespaces take turns in each band, keys of one keep their order.
func TestTurns(t *testing.T) {
	q := New(clock.RealClock{})
	defer q.ShutDown()
	for _, key := range []string{"b/x", "a/x"} {
		q.Defer(key)
	}
	for _, key := range []string{"b/x", "a/1", "a/2", "a/3", "a/x", "b/1", "c/1", "b/2", "alone"} {
		q.Add(key)
	}
	if q.Len() != 9 || q.Urgent() != 7 {
		t.Errorf("%d keys, %d of them urgent", q.Len(), q.Urgent())
	}
	for _, want := range []string{"a/1", "b/1", "c/1", "alone", "a/2", "b/2", "a/3", "b/x", "a/x"} {
		got, _ := q.Get()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		q.Done(got)
	}
	if q.Len() != 0 || q.Urgent() != 0 || len(q.gate.rooms) != 0 {
		t.Errorf("%d keys, %d of them urgent, %d namespaces are left", q.Len(), q.Urgent(), len(q.gate.rooms))
	}
}

// TestPlaces: how many passes run at first, once they are slow, and in the long run, and
// that others have all places meanwhile.
func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		places, namespaces         int // that hang
		fresh, after, inAll, later int // passes of the first of them at first and after 250 ms; of all then, and in the long run; -1: any
	}{
		{16, 1, 4, 16, 16, 16},
		{16, 2, 4, 8, 16, 16},
		{16, 3, 4, 5, 15, 15},
		{16, 16, 1, 2, 32, 32},
		{16, 40, 1, 1, 32, 32},
		{4, 1, 4, 4, 4, 4},
		{1, 1, 1, 2, 2, 2},
		{1, 3, 1, 1, 2, 6},
		{2, 1, 2, 2, 2, 2},
		{100, 1, 4, 100, 100, 100},
		{100, 60, 2, 2, 100, 100},
	} {
		t.Run(fmt.Sprint(tc.places, " places ", tc.namespaces, " namespaces"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				s.again = true
				var names []string
				for i := range tc.namespaces {
					names = append(names, fmt.Sprint("bad-", i))
				}
				s.hang(names...)
				for _, name := range names {
					s.add(name, 200)
				}
				s.begin(tc.places)
				time.Sleep(249 * time.Millisecond) // not slow yet
				if n, _ := s.atMost("all"); n > tc.places {
					t.Errorf("%d passes run at first, in %d places", n, tc.places)
				}
				if tc.fresh >= 0 {
					s.expect("bad-0", tc.fresh)
				}
				time.Sleep(time.Millisecond)
				if tc.after >= 0 {
					s.expect("bad-0", tc.after)
				}
				s.expect("all", tc.inAll)
				time.Sleep(5 * time.Minute)
				s.expect("all", tc.later)

				// Whatever hangs, all places are there for others, and no more.
				s.add("good", 500)
				time.Sleep(time.Duration(500/tc.places+10) * 5 * time.Millisecond)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				if n := s.most["good"]; n != tc.places {
					t.Errorf("%d passes of a good namespace at a time, want %d", n, tc.places)
				}
				n := 0
				for _, key := range s.done {
					if strings.HasPrefix(key, "good/") {
						n++
					}
				}
				if n != 500 {
					t.Errorf("%d of 500 are done", n)
				}
				s.again = false
			})
		})
	}
}

// TestLendingIsBounded: of many namespaces that hang one after the other, not more passes
// run than places are lent, and then the others keep theirs until those come back.
func TestLendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := work(t, 8)
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("bad-", i))
		}
		s.hang(names...)
		for _, name := range names {
			s.Add(name + "/0")
		}
		s.Add("good/0")
		time.Sleep(5 * time.Second)
		s.expect("all", 2*troubledInAll+8)
		if n, _ := s.atMost("good"); n != 0 {
			t.Error("a place was free, so this proves nothing")
		}
		time.Sleep(7 * time.Second)
		if n, _ := s.atMost("good"); n == 0 {
			t.Error("the places did not come back")
		}
		time.Sleep(time.Minute)
		s.expect("all", 0)
		if n, done := s.atMost("all"); n != 2*troubledInAll+8 || done != 101 {
			t.Errorf("%d passes at a time, %d of 101 are done", n, done)
		}
		s.hang()
		for i := range 100 {
			s.add(fmt.Sprint("new-", i), 5)
		}
		time.Sleep(10 * time.Second)
		if n, _ := s.atMost("all"); n != 8 {
			t.Errorf("after it all %d passes at a time, want 8", n)
		}
	})
}

// TestGrowth: each quick write allows one more, nothing else does.
func TestGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := work(t, 16)
		s.add("a", 200)
		for _, want := range []int{4, 8, 16, 16} {
			s.expect("a", want)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.write = func(string) bool { return false }
		s.add("a", 200)
		for range 20 {
			s.expect("a", 4)
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// TestTroubleEnds: by a quick write, or when it is long ago; not by a quick pass without a
// write, nor by a slow one.
func TestTroubleEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		takes time.Duration // of one more pass; 0: none
		write bool
		after time.Duration // since it was last slow, until it is looked at
		ends  bool
	}{
		{"a quick write", slow - 1, true, 0, true},
		{"a quick pass", slow - 1, false, 0, false},
		{"a slow write", slow, true, 0, false},
		{"nothing for a while", 0, false, 10 * time.Minute, false}, // longer than the longest pause
		{"nothing for long", 0, false, 10*time.Minute + 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := work(t, 2)
			s.hang("a", "b")
			s.add("a", 3)
			time.Sleep(20 * time.Second)
			s.expect("a", 0)
			trouble := s.gate.rooms["a"]
			if trouble == nil || !trouble.troubled || s.gate.lent != 0 {
				t.Fatalf("%s: no trouble: %+v", tc.name, trouble)
			}
			if tc.takes > 0 {
				s.takes = func(string) time.Duration { return tc.takes }
				s.write = func(string) bool { return tc.write }
				s.add("a", 1)
				time.Sleep(time.Second)
				synctest.Wait()
				s.hang("b")
			}
			time.Sleep(time.Until(trouble.slowAt.Add(tc.after - slow)))
			s.add("b", 1)
			time.Sleep(slow) // new trouble looks for old
			synctest.Wait()
			s.gate.mu.Lock()
			defer s.gate.mu.Unlock()
			if _, ok := s.gate.rooms["a"]; ok == tc.ends || s.gate.trouble.Len() != len(s.gate.rooms) || s.gate.rooms["b"] == nil {
				t.Errorf("%s: remembered: %v; %d in trouble, rooms %v", tc.name, ok, s.gate.trouble.Len(), s.gate.rooms)
			}
		})
	}
}

// TestUrgent: keys of namespaces in trouble are not, or events would wait for long.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := work(t, 2)
		s.hang("a")
		s.add("a", 10)
		synctest.Wait()
		if n := s.Urgent(); n != 8 || s.Len() != 8 {
			t.Errorf("%d urgent of %d", n, s.Len())
		}
		time.Sleep(slow)
		synctest.Wait()
		if n := s.Urgent(); n != 0 || s.Len() != 8 {
			t.Errorf("in trouble: %d urgent of %d", n, s.Len())
		}
		s.hang()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.Len(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// TestHeldAtShutDown: what waits for its namespace is left, and what runs is waited for.
func TestHeldAtShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(clock.RealClock{})
		var begun, ended atomic.Int64
		over := make(chan struct{})
		go func() {
			defer close(over)
			q.Work(8, func(string) {
				begun.Add(1)
				time.Sleep(10 * time.Second)
				ended.Add(1)
			})
		}()
		for i := range 100 {
			q.Add(fmt.Sprintf("a/%d", i))
			q.Add(fmt.Sprintf("b/%d", i))
		}
		time.Sleep(9 * time.Second)
		q.ShutDown()
		told := time.Now()
		<-over
		if took := time.Since(told); took > time.Second || begun.Load() != 8 || ended.Load() != 8 {
			t.Errorf("over after %v, %d of %d passes ended", took, ended.Load(), begun.Load())
		}
	})
}

// TestBacklogAtShutDown: keys that may be handed out are left, too.
func TestBacklogAtShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(clock.RealClock{})
		var begun atomic.Int64
		over := make(chan struct{})
		go func() {
			defer close(over)
			q.Work(2, func(string) {
				begun.Add(1)
				time.Sleep(100 * time.Millisecond)
			})
		}()
		for i := range 100 {
			q.Add(fmt.Sprintf("%d/a", i))
		}
		time.Sleep(50 * time.Millisecond)
		q.ShutDown()
		<-over
		if n := begun.Load(); n != 2 {
			t.Errorf("%d passes, want the 2 that ran", n)
		}
	})
}

// TestNothingIsLost: at any time, for each place there is a pass that runs or no key that
// may be handed out; and each key that is added is handed out after that.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			const places = 6
			random, chance := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) // the latter's under s.mu
			hangs := 0.3
			s := work(t, places)
			s.takes = func(string) time.Duration {
				if chance.Float64() < hangs {
					return time.Duration(chance.IntN(3000)) * time.Millisecond
				}
				return time.Duration(chance.IntN(20)) * time.Millisecond
			}
			s.write = func(string) bool { return chance.IntN(2) == 0 }
			added := map[string]bool{}
			for range 600 {
				for range random.IntN(8) {
					key := fmt.Sprintf("%d/%d", random.IntN(12)*random.IntN(2), random.IntN(30))
					switch random.IntN(8) {
					case 0:
						s.Defer(key)
					case 1:
						s.Promote(key)
					}
					s.Add(key)
					added[key] = true
				}
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				synctest.Wait()
				checkCounts(t, s.gate)
			}
			s.mu.Lock()
			hangs = 0
			s.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := s.Len(); n != 0 {
				t.Errorf("seed %d: %d keys are left", seed, n)
			}
			s.done = nil
			for key := range added {
				s.Add(key)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(s.done) != len(added) {
				t.Errorf("seed %d: %d of %d keys were handed out", seed, len(s.done), len(added))
			}
			if n := len(s.gate.rooms); n != s.gate.trouble.Len() {
				t.Errorf("seed %d: %d rooms are kept, %d of them in trouble", seed, n, s.gate.trouble.Len())
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// checkCounts counts anew what the gate keeps count of, while nothing happens.
func checkCounts(t *testing.T, g *gate) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	type counts struct {
		Ready              [2]int
		Keys, Urgent, Lent int
	}
	var have counts
	for _, p := range g.passes {
		if p.lent {
			have.Lent++
		}
	}
	for _, r := range g.rooms {
		for band := range r.keys {
			have.Keys += r.keys[band].len()
			if g.mayBegin(r) {
				have.Ready[band] += r.keys[band].len()
			}
		}
		if !r.troubled {
			have.Urgent += r.keys[0].len()
		}
	}
	if counted := (counts{g.ready, g.keys, g.urgent, g.lent}); !reflect.DeepEqual(counted, have) {
		t.Errorf("counted %+v, have %+v", counted, have)
	}
	inPlace := len(g.passes) - have.Lent
	if inPlace > g.places || inPlace < g.places && have.Ready != [2]int{} {
		t.Errorf("%d passes in %d places, ready %v", inPlace, g.places, have.Ready)
	}
}

// TestReadyNoMore: what was ready when the workqueue asked, and is not when it takes a key.
func TestReadyNoMore(t *testing.T) {
	g := newGate(clock.RealClock{})
	g.open(4, func() {})
	for i := range 6 {
		g.Push(fmt.Sprintf("a/%d", i))
	}
	for i := range 6 { // the last two are beyond the limit
		if key := g.Pop(); key != fmt.Sprintf("a/%d", i) {
			t.Errorf("got %q", key)
		}
	}
	if g.Len() != 0 || g.keys != 0 || len(g.passes) != 6 || g.rooms["a"].passes != 6 {
		t.Errorf("%d ready of %d, %d passes", g.Len(), g.keys, len(g.passes))
	}
	g.Push("a/7")
	if g.Len() != 0 {
		t.Error("more is ready than may run")
	}
	for i := range 6 {
		g.leave(fmt.Sprintf("a/%d", i))
	}
	if g.Len() != 1 || g.Pop() != "a/7" {
		t.Error("it is not handed out")
	}
}

// TestStuck: what counts is that no pass can begin, and that those to blame are old.
func TestStuck(t *testing.T) {
	const timeout = time.Minute
	type running struct {
		age  time.Duration
		lent bool
	}
	old, oldLent := running{timeout + 1, false}, running{timeout + 1, true}
	young, onTheDot := running{time.Second, false}, running{timeout, false}
	for _, tc := range []struct {
		name        string
		passes      []running
		keys, ready int
		ended       time.Duration // ago
		want        bool
	}{
		{"nothing runs", nil, 9, 0, time.Hour, false},
		{"young passes have all places", []running{young, young}, 9, 0, time.Hour, false},
		{"passes of just that age do", []running{onTheDot, onTheDot}, 9, 0, time.Hour, false},
		{"old ones do", []running{old, old}, 9, 9, 0, true},
		{"old ones do, and nothing waits", []running{old, old, oldLent}, 0, 0, 0, true},
		{"all places but one", []running{old, oldLent}, 9, 9, time.Hour, false},
		{"what waits may not begin", []running{oldLent}, 9, 0, timeout + 1, true},
		{"what waits may not begin, of one place", []running{old}, 9, 0, timeout + 1, true},
		{"something that waits may", []running{oldLent}, 9, 1, timeout + 1, false},
		{"something may in the second band", []running{oldLent}, 9, -1, timeout + 1, false},
		{"nothing waits", []running{oldLent}, 0, 0, timeout + 1, false},
		{"a young one may end", []running{oldLent, young}, 9, 0, timeout + 1, false},
		{"one has ended lately", []running{oldLent}, 9, 0, timeout, false},
	} {
		now := time.Now()
		g := newGate(clocktesting.NewFakePassiveClock(now))
		g.places, g.keys, g.ended = 2, tc.keys, now.Add(-tc.ended)
		g.ready = [2]int{max(tc.ready, 0), max(-tc.ready, 0)}
		for i, p := range tc.passes {
			g.passes[strconv.Itoa(i)] = pass{begun: now.Add(-p.age), lent: p.lent}
		}
		if got := g.stuck(timeout); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestRetry: pauses grow, none goes beyond the boundary, and they begin anew after it.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(clock.RealClock{})
		defer q.ShutDown()
		back := func(boundary time.Time) time.Duration {
			begun := time.Now()
			q.Retry("a/b", boundary)
			key, _ := q.Get()
			q.Done(key)
			return time.Since(begun)
		}
		const ms = time.Millisecond
		boundary := time.Now().Add(100 * ms)
		for i, want := range []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 25 * ms} { // the last one until the boundary
			if got := back(boundary); got != want {
				t.Errorf("failure %d: back after %v, want %v", i+1, got, want)
			}
		}
		for i, want := range []time.Duration{5 * ms, 10 * ms, 20 * ms} {
			if got := back(boundary.Add(time.Hour)); got != want {
				t.Errorf("failure %d after the boundary: back after %v, want %v", i+1, got, want)
			}
		}
		if got := back(time.Time{}); got != 40*ms {
			t.Errorf("without a boundary: back after %v", got)
		}
		time.Sleep(2 * time.Hour) // the boundary before is not looked at any more
		if got := back(time.Time{}); got != 80*ms {
			t.Errorf("without a boundary again: back after %v", got)
		}
		back(time.Now().Add(time.Hour))
		q.Forget("a/b")
		if n := q.NumRequeues("a/b"); n != 0 || len(q.boundary) != 0 {
			t.Errorf("forgotten, with %d failures, %d boundaries", n, len(q.boundary))
		}
		if got := back(time.Now().Add(time.Hour)); got != 5*ms {
			t.Errorf("after it went well: back after %v", got)
		}
	})
}

// BenchmarkQueue is what adding 20,000 keys, handing them out and taking them back costs
// each, with 16 workers: without limits, and by Work.
func BenchmarkQueue(b *testing.B) {
	const keys, workers = 20_000, 16
	for _, namespaces := range []int{1, 100, keys} {
		var list []string
		for i := range keys {
			list = append(list, fmt.Sprintf("namespace-%d/%d", i%namespaces, i))
		}
		run := func(b *testing.B, work func(q *Queue, pass func(string))) {
			b.ReportAllocs()
			for b.Loop() {
				q := New(clock.RealClock{})
				for _, key := range list {
					q.Add(key)
				}
				var n atomic.Int64
				work(q, func(string) {
					if n.Add(1) == keys {
						q.ShutDown()
					}
				})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
		}
		b.Run(fmt.Sprint(namespaces, " namespaces, no limits"), func(b *testing.B) {
			run(b, func(q *Queue, pass func(string)) {
				var group sync.WaitGroup
				for range workers {
					group.Go(func() {
						for {
							key, quit := q.Get()
							if quit {
								return
							}
							pass(key)
							q.Done(key)
						}
					})
				}
				group.Wait()
			})
		})
		b.Run(fmt.Sprint(namespaces, " namespaces, Work"), func(b *testing.B) {
			run(b, func(q *Queue, pass func(string)) { q.Work(workers, pass) })
		})
	}
}
