package workload

import "testing"

// TestSharedIsBounded: what nobody has any more does not stay for ever.
func TestSharedIsBounded(t *testing.T) {
	s := newShared[int, *int]()
	for i := range 2 * sharedObjects {
		if got := s.of(i, 0, func() *int { return &i }); *got != i {
			t.Fatalf("got %d for %d", *got, i)
		}
	}
	if n := s.recent.Len(); n != sharedObjects {
		t.Errorf("%d are remembered", n)
	}
}
