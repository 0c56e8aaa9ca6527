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
	for i, offset := range offsets {
		even := stagger * time.Duration(i) / n
		if off := (offset - even).Abs(); off > stagger/20 {
			t.Errorf("number %d of %d is at %v, %v from an even spread", i, n, offset, off)
		}
	}
}
