package night

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestStagger: even over the time, and the same each morning.
func TestStagger(t *testing.T) {
	const n, stagger = 3000, 30 * time.Second
	var offsets []time.Duration
	for i := range n {
		key := fmt.Sprintf("team-%d/web-%d", i%7, i)
		offset := staggerOf(key, stagger)
		if offset < 0 || offset >= stagger || offset != staggerOf(key, stagger) {
			t.Fatalf("%s: %v", key, offset)
		}
		offsets = append(offsets, offset)
	}
	slices.Sort(offsets)
	if different := len(slices.Compact(slices.Clone(offsets))); different < n*9/10 || offsets[n/2]%time.Millisecond != 0 {
		t.Errorf("%d of %d are different; one is %v", different, n, offsets[n/2])
	}
	for i, offset := range offsets {
		even := stagger * time.Duration(i) / n
		if off := (offset - even).Abs(); off > stagger/20 {
			t.Errorf("number %d of %d is at %v, %v from an even spread", i, n, offset, off)
		}
	}
}

// TestStaggerOf: a Deployment has its place in the delay, and no other of that name has it.
func TestStaggerOf(t *testing.T) {
	delay := func(namespace string, stagger time.Duration) time.Duration {
		s, err := For(namespace, "web", nil, Schedule{WakeDelay: time.Hour, WakeStagger: stagger})
		if err != nil {
			t.Fatal(err)
		}
		return s.WakeDelay
	}
	if got := delay("shop", 0); got != time.Hour {
		t.Errorf("without a stagger: %v", got)
	}
	if shop, blog := delay("shop", time.Hour), delay("blog", time.Hour); shop <= time.Hour || blog <= time.Hour || shop == blog {
		t.Errorf("with one: %v and %v", shop, blog)
	}
}

// TestParseReplicas: all that spec.replicas can be, and nothing else.
func TestParseReplicas(t *testing.T) {
	for text, want := range map[string]int32{"0": 0, "3": 3, "0003": 3, "2147483647": 2147483647} {
		if got, err := ParseReplicas(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2147483648", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "٣"} {
		if got, err := ParseReplicas(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
