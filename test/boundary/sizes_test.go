package boundary

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// maxPeak is the memory that deploy/ requests.
	maxPeak = 128 << 20
	// annotationLimit is how large all annotations of an object may be together.
	annotationLimit = 256 << 10
)

// TestInvalidAndLarge: 5,000 Deployments with a wrong window cost one status write and
// one event each, and nothing after that; one that is edited again and again has its
// events limited; and annotations as large as the API server takes do no harm.
func TestInvalidAndLarge(t *testing.T) {
	ctx := t.Context()
	b, stop, err := start(ctx, Options{Program: os.Getenv("SCHEDULE_NIGHT"), Deploy: "../../deploy", N: 5000, QPS: -1, Workers: 16, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := b.makeDeployments(ctx, "Mon-Fry 21:00-07:00"); err != nil {
		t.Fatal(err)
	}
	if b.watch, err = observe(ctx, b.plane.Client); err != nil {
		t.Fatal(err)
	}
	p, _, err := b.startController(ctx, "21:00-07:00", "--resync=5s")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	unknown := func(s *seen) bool { return s.status == corev1.ConditionUnknown }
	if err := b.watch.wait(ctx, b.N, unknown); err != nil {
		t.Fatal(err)
	}
	// requests counts those of the controller, by verb and resource; of events,
	// those about the given Deployment, if one is given.
	requests := func(name string) map[string]int {
		t.Helper()
		list, err := b.plane.Audited(accountUser)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, r := range list {
			if r.Ref != nil && (name == "" || strings.HasPrefix(r.Ref.Name, name+".")) {
				n[r.Verb+" "+r.What()]++
			}
		}
		return n
	}
	quiet := func(what string, want int) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return requests("")[what] >= want, nil
		})
		if err != nil {
			t.Fatalf("%s: %v, want %d", what, requests(""), want)
		}
	}
	b.log("all %d are known to be invalid", b.N)
	quiet("create events", b.N)
	b.log("all events arrived")
	before := requests("")
	if before["patch deployments/status"] != b.N || before["create events"] != b.N || before["update deployments/scale"] != 0 {
		t.Errorf("for %d wrong windows: %v", b.N, before)
	}

	// An impatient owner.
	ns, name := place(0)
	deployments := b.plane.Client.AppsV1().Deployments(ns)
	annotate := func(annotation, value string) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: value}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = deployments.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	const edits = 60
	for i := range edits {
		window := fmt.Sprintf("no window %d", i)
		if err := annotate("schedule-night.svc/window", window); err != nil {
			t.Fatal(err)
		}
		waitForMessage(t, b, ns, name, window)
	}
	quiet("patch deployments/status", b.N+edits)
	b.log("%d edits of one Deployment are told", edits)
	if about := requests(name); about["create events"]+about["patch events"] > 40 {
		t.Errorf("%d edits of one Deployment made %v", edits, about)
	}

	// As large as can be.
	large := strings.Repeat("Mon 21:00-07:00, ", annotationLimit/17-100)
	if err := annotate("example.com/megabyte", strings.Repeat(large, 4)); !apierrors.IsInvalid(err) {
		t.Errorf("the API server takes a megabyte of annotations: %v", err)
	}
	if err := annotate("schedule-night.svc/window", large); err != nil {
		t.Fatal(err)
	}
	if message := waitForMessage(t, b, ns, name, "longer than 4096 bytes"); len(message) > 1024 {
		t.Errorf("the condition's message has %d bytes", len(message))
	}

	// Two resyncs later nothing more has been written.
	settled := requests("")
	b.log("idle for two resyncs")
	idle, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	<-idle.Done()
	for what, n := range requests("") {
		if what != "update leases" && what != "get leases" && n != settled[what] && !strings.HasPrefix(what, "watch ") {
			t.Errorf("while nothing was edited: %s: %d, then %d", what, settled[what], n)
		}
	}
	peak, steady, _ := usage(p.PID)
	t.Logf("peak RSS %d MB, steady %d MB", peak>>20, steady>>20)
	if peak > maxPeak {
		t.Errorf("peak RSS is %d MB, want at most %d MB", peak>>20, maxPeak>>20)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// waitForMessage waits until the condition's message has the given text in it.
func waitForMessage(t *testing.T, b *bench, namespace, name, text string) (message string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err := b.plane.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == condition {
				message = c.Message
			}
		}
		return strings.Contains(message, text), nil
	})
	if err != nil {
		t.Fatalf("condition %q, want %q in it: %v", message, text, err)
	}
	return message
}
