package main

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"schedule-night/internal/night"
)

func TestTrim(t *testing.T) {
	d := asleepSince(deployment(3))
	d.Labels = map[string]string{"a": "b"}
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable})
	once, err := trim(d)
	if err != nil {
		t.Fatal(err)
	}
	got := once.(*appsv1.Deployment)
	if got.Labels != nil || got.ManagedFields != nil || len(got.Annotations) != 2 || len(got.Status.Conditions) != 1 || *got.Spec.Replicas != 3 || got.UID != d.UID {
		t.Errorf("trimmed to %+v", got)
	}
	twice, err := trim(got)
	if err != nil || !equalDeployments(got, twice.(*appsv1.Deployment)) {
		t.Errorf("trimmed again to %+v, error %v", twice, err)
	}
	if same, err := trim(cache.DeletedFinalStateUnknown{Key: "k"}); err != nil || same.(cache.DeletedFinalStateUnknown).Key != "k" {
		t.Errorf("a tombstone became %v, error %v", same, err)
	}
}

// TestTrimShares: what is equal is one object, and only what is equal.
func TestTrimShares(t *testing.T) {
	long := "window=" + strings.TrimSuffix(strings.Repeat("Mon 21:00-22:00, ", maxSharedText/10), ", ")
	for _, tc := range []struct {
		name   string
		a, b   *appsv1.Deployment
		shared bool
	}{
		{"the same", asleepSince(deployment(3)), asleepSince(deployment(5)), true},
		{"with others of no concern", deployment(3), annotated(deployment(3), "example.com/owner", "me"), true},
		{"another value", deployment(3, "expected=3"), deployment(3, "expected=4"), false},
		{"the same value elsewhere", deployment(3, "timezone=UTC"), deployment(3, "window=UTC"), false},
		{"empty and not there", deployment(3, "except="), deployment(3), false},
		{"too long to be kept", deployment(3, long), deployment(3, long), false},
	} {
		a, b := trimDeployment(tc.a), trimDeployment(tc.b)
		for _, pair := range [][2]*appsv1.Deployment{{a, tc.a}, {b, tc.b}} {
			for _, name := range night.AnnotationNames {
				got, ok := pair[0].Annotations[name]
				want, wanted := pair[1].Annotations[name]
				if got != want || ok != wanted {
					t.Errorf("%s: %s is %q, %v; want %q, %v", tc.name, name, got, ok, want, wanted)
				}
			}
		}
		if one := reflect.ValueOf(a.Annotations).Pointer() == reflect.ValueOf(b.Annotations).Pointer(); one != tc.shared {
			t.Errorf("%s: one map: %v", tc.name, one)
		}
		if tc.shared && len(a.Status.Conditions) > 0 && &a.Status.Conditions[0] != &b.Status.Conditions[0] {
			t.Errorf("%s: two conditions", tc.name)
		}
	}
}

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

func annotated(d *appsv1.Deployment, name, value string) *appsv1.Deployment {
	d.Annotations = maps.Clone(d.Annotations)
	d.Annotations[name] = value
	return d
}
