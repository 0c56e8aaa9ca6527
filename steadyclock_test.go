//go:build fire || soak

package main

import (
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// steadyClock is a fake clock that only the test moves: a pause takes real time.
type steadyClock struct{ *clocktesting.FakeClock }

func (steadyClock) Sleep(d time.Duration) { time.Sleep(d) }
