//go:build soak

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"schedule-night/internal/events"
	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

var soakFor = flag.Duration("soak", 20*time.Second, "how long to soak")

const (
	soakDeployments = 200
	soakRate        = 10_000 // passes a second
	soakTick        = 20 * time.Millisecond
	soakStep        = 10 * time.Minute // of the simulated clock, in a tick: a day takes three seconds
)

// TestSoak makes 10,000 passes a second while days go by and Deployments come and go:
// the memory and the goroutines of the controller stay what they are.
func TestSoak(t *testing.T) {
	clk := clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T12:00:00Z"))
	var objects []*appsv1.Deployment
	for i := range soakDeployments {
		objects = append(objects, soaked(i))
	}
	w := newWorld(t, clk, objects...)
	w.client.PrependReactor("create", "events", func(action k8stesting.Action) (bool, apiruntime.Object, error) {
		return true, action.(k8stesting.CreateAction).GetObject(), nil // and forgotten
	})
	events := events.New(w.client.CoreV1(), workload.FieldManager, steadyClock{clk}, func() bool { return w.Queue.Urgent() > 0 })
	w.Events = events
	events.Start(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	w.factory.StartWithContext(ctx)
	if err := w.factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	deployments := w.client.AppsV1().Deployments("default")
	var first, last runtime.MemStats
	var firstGoroutines, passes, writes int
	next := soakDeployments
	begun := time.Now()
	ticker := time.NewTicker(soakTick)
	defer ticker.Stop()
	for now := range ticker.C {
		for due := int(now.Sub(begun).Seconds() * soakRate); passes < due; passes += soakDeployments {
			for i := next - soakDeployments; i < next; i++ {
				w.Queue.Add("default/" + soaked(i).Name)
			}
			for w.Queue.Len() > 0 { // a key that waits already is not added again
				runtime.Gosched()
			}
		}
		clk.Step(soakStep)
		w.mu.Lock() // a write looks, and stores
		err := w.tracker.Delete(deploymentResource, "default", soaked(next-soakDeployments).Name)
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deployments.Create(ctx, soaked(next), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		next++
		writes += len(w.taken())
		w.client.ClearActions() // the fake's own memory
		if first.NumGC == 0 && now.Sub(begun) > *soakFor/4 {
			firstGoroutines = measure(&first)
		}
		if now.Sub(begun) > *soakFor {
			break
		}
	}
	rate := float64(passes) / time.Since(begun).Seconds()
	lastGoroutines := measure(&last)
	t.Logf("%.0f passes a second for %v, %d writes, %d Deployments that came and went: heap %.1f MB, then %.1f MB; goroutines %d, then %d",
		rate, time.Since(begun).Round(time.Second), writes, next-soakDeployments, megabytes(first.HeapAlloc), megabytes(last.HeapAlloc), firstGoroutines, lastGoroutines)
	if last.HeapAlloc > first.HeapAlloc+first.HeapAlloc/10+1<<20 {
		t.Errorf("the heap grew")
	}
	if lastGoroutines > firstGoroutines+2 {
		t.Errorf("the goroutines grew")
	}
	if writes == 0 {
		t.Error("nobody slept or woke")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.factory.Shutdown()
	events.Shutdown(t.Context())
}

// soaked is the i-th Deployment to come.
func soaked(i int) *appsv1.Deployment {
	d := workloadtest.Deployment(3, "window=21:00-07:00")
	d.Name, d.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	if i%10 == 0 {
		d.Annotations[night.AnnotationWindow] = "soon" // invalid
	}
	return d
}

// measure collects the garbage, so that what is left is held.
func measure(m *runtime.MemStats) (goroutines int) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(m)
	return runtime.NumGoroutine()
}

func megabytes(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
