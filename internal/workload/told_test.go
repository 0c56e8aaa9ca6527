package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"schedule-night/internal/night"
)

func testAutoscaler(target string, minReplicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: target},
			MinReplicas:    &minReplicas,
		},
	}
}

// TestAutoscalersTell: whatever an autoscaler newly means for a Deployment is told at once,
// and nothing else; and one that is gone counts for a while.
func TestAutoscalersTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const linger = 30 * time.Second
		client := fake.NewClientset()
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(Self{}.Transform))
		a := NewAutoscalers(clock.RealClock{}, linger)
		if err := a.Attach(factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var told []string
		a.Subscribe(func(key string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, key)
		})
		if a.HasSynced() {
			t.Error("all are known before any was read")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer cancel()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		if !a.HasSynced() {
			t.Error("has not synced")
		}

		hpas := client.AutoscalingV2().HorizontalPodAutoscalers("shop")
		version := 1
		update := func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
			version++
			hpa.ResourceVersion = strings.Repeat("1", version)
			_, err := hpas.Update(t.Context(), hpa, metav1.UpdateOptions{})
			return err
		}
		const gone = "gone: any count may be its own"
		for _, tc := range []struct {
			name     string
			do       func() error
			told     string
			web, api string // their autoscalers then
		}{
			{"created", func() error {
				_, err := hpas.Create(t.Context(), testAutoscaler("web", 2), metav1.CreateOptions{})
				return err
			}, "shop/web", "2", ""},
			{"another minimum", func() error { return update(testAutoscaler("web", 3)) }, "shop/web", "3", ""},
			{"another maximum", func() error {
				hpa := testAutoscaler("web", 3)
				hpa.Spec.MaxReplicas = 9
				return update(hpa)
			}, "", "3", ""},
			{"another target", func() error { return update(testAutoscaler("api", 3)) }, "shop/web shop/api", gone, "3"},
			{"in a while", func() error { time.Sleep(linger - time.Second); return nil }, "", gone, "3"},
			{"and longer", func() error { time.Sleep(time.Second); return nil }, "", "", "3"},
			{"deleted", func() error { return hpas.Delete(t.Context(), "hpa", metav1.DeleteOptions{}) }, "shop/api", "", gone},
			{"in another while", func() error { time.Sleep(linger); return nil }, "", "", ""},
			{"one of something else", func() error {
				hpa := testAutoscaler("web", 3)
				hpa.Spec.ScaleTargetRef.Kind = "StatefulSet"
				_, err := hpas.Create(t.Context(), hpa, metav1.CreateOptions{})
				return err
			}, "", "", ""},
			{"which is deleted", func() error { return hpas.Delete(t.Context(), "hpa", metav1.DeleteOptions{}) }, "", "", ""},
		} {
			if err := tc.do(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			mu.Lock()
			if want := strings.Fields(tc.told); !slices.Equal(slices.Compact(told), want) {
				t.Errorf("%s: told %q, want %q", tc.name, told, want)
			}
			told = nil
			mu.Unlock()
			for key, want := range map[string]string{"shop/web": tc.web, "shop/api": tc.api} {
				got := ""
				switch hpa := a.Of(key); {
				case hpa == nil:
				case hpa.Name == "" && hpa.ToZero:
					got = gone
				case hpa.Name == "hpa":
					got = fmt.Sprint(hpa.Min)
				}
				if got != want {
					t.Errorf("%s: %s has %q, want %q", tc.name, key, got, want)
				}
			}
		}
		a.lose(testAutoscaler("last", 1))
		if len(a.gone) != 1 {
			t.Errorf("%d are remembered that have long been gone", len(a.gone)-1)
		}
		a.Subscribe(nil)
		if _, err := hpas.Create(t.Context(), testAutoscaler("web", 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("told %q after it was asked not to", told)
		}
	})
}

// TestAdjust: what of a schedule gives way to an autoscaler, and what its owner hears of it.
func TestAdjust(t *testing.T) {
	const enforced = "schedule-night.svc/daytime enforce does not go with HorizontalPodAutoscaler hpa; taken as wake-only"
	for _, tc := range []struct {
		name     string
		hpa      *Autoscaler
		night    int32
		daytime  night.Daytime
		want     int32 // the night's count
		conflict string
	}{
		{"below the minimum", &Autoscaler{Name: "hpa", Min: 4}, 3, night.DaytimeDefault, 4, "schedule-night.svc/night-replicas 3 is below the minimum of HorizontalPodAutoscaler hpa; asleep at 4"},
		{"at the minimum", &Autoscaler{Name: "hpa", Min: 4}, 4, night.DaytimeWakeOnly, 4, ""},
		{"above it", &Autoscaler{Name: "hpa", Min: 4}, 5, night.DaytimeDefault, 5, ""},
		{"asleep at 0 it stands aside", &Autoscaler{Name: "hpa", Min: 4}, 0, night.DaytimeDefault, 0, ""},
		{"enforced", &Autoscaler{Name: "hpa", Min: 4}, 0, night.DaytimeEnforce, 0, enforced},
		{"where there may be one", &Autoscaler{ToZero: true}, 2, night.DaytimeEnforce, 2, ""},
	} {
		s := night.Schedule{NightReplicas: tc.night, Daytime: tc.daytime}
		if conflict := tc.hpa.Adjust(&s); conflict != tc.conflict || s.NightReplicas != tc.want || s.Daytime != night.DaytimeWakeOnly {
			t.Errorf("%s: %+v, conflict %q", tc.name, s, conflict)
		}
	}
	s := night.Schedule{NightReplicas: 1, Daytime: night.DaytimeEnforce}
	if conflict := (*Autoscaler)(nil).Adjust(&s); conflict != "" || s.NightReplicas != 1 || s.Daytime != night.DaytimeEnforce {
		t.Errorf("without one: %+v, conflict %q", s, conflict)
	}
}
