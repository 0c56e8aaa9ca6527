package workload_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

func TestTrim(t *testing.T) {
	d := workloadtest.AsleepSince(workloadtest.Deployment(3))
	d.Labels = map[string]string{"a": "b"}
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable})
	once, err := workload.Self{}.Transform(d)
	if err != nil {
		t.Fatal(err)
	}
	got := once.(*workload.Workload)
	if len(got.Annotations) != 2 || !got.Record.Asleep() || got.Replicas != 3 || got.UID != d.UID {
		t.Errorf("trimmed to %+v", got)
	}
	twice, err := workload.Self{}.Transform(got)
	if err != nil || twice != any(got) {
		t.Errorf("trimmed again to %+v, error %v", twice, err)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "k"}
	if same, err := (workload.Self{}).Transform(tombstone); err != nil || same.(cache.DeletedFinalStateUnknown).Key != "k" {
		t.Errorf("a tombstone became %v, error %v", same, err)
	}
}

// TestTrimKeepsAll: what decisions rest on is kept of objects without annotations, too.
func TestTrimKeepsAll(t *testing.T) {
	self := workload.Self{Namespace: "default", ServiceAccount: "night"}
	d := workloadtest.Without(workloadtest.Deployment(5), "on", "expected")
	d.CreationTimestamp = metav1.Unix(1e9, 0)
	d.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "App"}}
	d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: "night", Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}
	got := self.FromDeployment(d)
	want := &workload.Workload{
		Meta:       workload.Meta{Namespace: "default", Name: "web", UID: "uid-1", ResourceVersion: "1", CreationTimestamp: d.CreationTimestamp},
		Kind:       ptr.To(appsv1.SchemeGroupVersion.WithKind("Deployment")),
		Replicas:   5,
		Requests:   &workload.Requests{Cores: 0.5, Gibibytes: 1},
		Controlled: true,
		Ours:       true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if other := (workload.Self{Namespace: "other", ServiceAccount: "night"}).FromDeployment(d); other.Ours {
		t.Error("a ServiceAccount of the same name in another namespace is taken for ours")
	}
	if nobody := (workload.Self{}).FromDeployment(&appsv1.Deployment{}); nobody.Ours {
		t.Error("outside a Pod, what names no ServiceAccount is taken for ours")
	}
}

// TestMeta: client-go finds in the small form what it asks an object for, and the form is small.
func TestMeta(t *testing.T) {
	d := workloadtest.Deployment(3)
	d.CreationTimestamp, d.DeletionTimestamp = metav1.Unix(1e9, 0), ptr.To(metav1.Unix(2e9, 0))
	w := workloadtest.Of(d)
	m, err := meta.Accessor(w)
	if err != nil {
		t.Fatal(err)
	}
	got := workload.Meta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
		CreationTimestamp: m.GetCreationTimestamp(), DeletionTimestamp: m.GetDeletionTimestamp(), Annotations: m.GetAnnotations(),
	}
	if !reflect.DeepEqual(got, w.Meta) {
		t.Errorf("client-go sees %+v of %+v", got, w.Meta)
	}
	if kind := w.GetObjectKind().GroupVersionKind(); kind != appsv1.SchemeGroupVersion.WithKind("Deployment") {
		t.Errorf("client-go sees a %v", kind)
	}
	if size := unsafe.Sizeof(*w); size > 144 { // bytes: the class of sizes that Go has for it
		t.Errorf("a Workload takes %d bytes", size)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = meta.Accessor(w); _ = w.GetObjectKind() }); n > 0 {
		t.Errorf("to look at it allocates %v times", n)
	}
}

func TestSelfOf(t *testing.T) {
	for user, want := range map[string]workload.Self{
		"system:serviceaccount:schedule-night:night": {Namespace: "ours", ServiceAccount: "night"},
		"system:serviceaccount:x":                    {Namespace: "ours"},
		"unknown":                                    {Namespace: "ours"},
	} {
		if got := workload.SelfOf("ours", user); got != want {
			t.Errorf("%s: got %+v, want %+v", user, got, want)
		}
	}
	// If the API server does not tell who we are, all of our namespace counts.
	d := workloadtest.Deployment(3)
	for namespace, want := range map[string]bool{"default": true, "other": false} {
		if got := (workload.Self{Namespace: namespace}).FromDeployment(d).Ours; got != want {
			t.Errorf("in namespace %s: ours %v", namespace, got)
		}
	}
}

// TestDeepCopy: nothing of a copy is the original's.
func TestDeepCopy(t *testing.T) {
	w := workload.Self{}.FromDeployment(workloadtest.AsleepSince(workloadtest.Deployment(3)))
	w.Requests = &workload.Requests{Cores: 1}
	before := w.DeepCopy()
	if !reflect.DeepEqual(w, before) {
		t.Fatalf("%+v was copied as %+v", w, before)
	}
	out := w.DeepCopyObject().(*workload.Workload)
	out.Annotations["x"], out.Record.Message, out.Requests.Cores = "y", "z", 2
	if !reflect.DeepEqual(w, before) {
		t.Errorf("the original became %+v", w)
	}
}

// TestTrimShares: what is equal is one object, and only what is equal.
func TestTrimShares(t *testing.T) {
	long := "window=" + strings.TrimSuffix(strings.Repeat("Mon 21:00-22:00, ", 512/10), ", ")
	for _, tc := range []struct {
		name   string
		a, b   *appsv1.Deployment
		shared bool
	}{
		{"the same", workloadtest.AsleepSince(workloadtest.Deployment(3)), workloadtest.AsleepSince(workloadtest.Deployment(5)), true},
		{"with others of no concern", workloadtest.Deployment(3), annotated(workloadtest.Deployment(3), "example.com/owner", "me"), true},
		{"another value", workloadtest.Deployment(3, "expected=3"), workloadtest.Deployment(3, "expected=4"), false},
		{"the same value elsewhere", workloadtest.Deployment(3, "timezone=UTC"), workloadtest.Deployment(3, "window=UTC"), false},
		{"misspelt alike", workloadtest.Deployment(3, "timeZone=UTC"), workloadtest.Deployment(3, "timeZone=CET"), true},
		{"misspelt otherwise", workloadtest.Deployment(3, "timeZone=UTC"), workloadtest.Deployment(3, "time-zone=UTC"), false},
		{"empty and not there", workloadtest.Deployment(3, "except="), workloadtest.Deployment(3), false},
		{"too long to be kept", workloadtest.Deployment(3, long), workloadtest.Deployment(3, long), false},
	} {
		a, b := workloadtest.Of(tc.a), workloadtest.Of(tc.b)
		for w, d := range map[*workload.Workload]*appsv1.Deployment{a: tc.a, b: tc.b} {
			for _, name := range night.AnnotationNames {
				got, ok := w.Annotations[name]
				want, wanted := d.Annotations[name]
				if got != want || ok != wanted {
					t.Errorf("%s: %s is %q, %v; want %q, %v", tc.name, name, got, ok, want, wanted)
				}
			}
		}
		if one := reflect.ValueOf(a.Annotations).Pointer() == reflect.ValueOf(b.Annotations).Pointer(); one != tc.shared {
			t.Errorf("%s: one map: %v", tc.name, one)
		}
		if tc.shared && a.Record != b.Record {
			t.Errorf("%s: two records", tc.name)
		}
	}
}

// TestTrimBounds: nobody's values fill our memory. What is cut reads as too long, as it did.
func TestTrimBounds(t *testing.T) {
	for _, name := range night.AnnotationNames[1:] {
		for _, value := range []string{strings.Repeat("0", 200_000), "21:00-07:00," + strings.Repeat(" ", 200_000) + "x", strings.Repeat("0", 4096) + "s"} {
			d := annotated(workloadtest.Deployment(3), name, value)
			w := workloadtest.Of(d)
			_, want := night.ParseSchedule(d.Annotations, night.Schedule{})
			_, got := w.Schedule(night.Schedule{})
			if want == nil || got == nil || got.Error() != want.Error() || !strings.HasSuffix(got.Error(), "longer than 4096 bytes") {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			if n := len(w.Annotations[name]); n > 4097 {
				t.Errorf("%s: %d bytes are kept", name, n)
			}
		}
		longest := strings.Repeat("0", 4096)
		if got := workloadtest.Of(annotated(workloadtest.Deployment(3), name, longest)).Annotations[name]; got != longest {
			t.Errorf("%s: of a value that is not too long, %d bytes are kept", name, len(got))
		}
	}
	d := workloadtest.Deployment(3)
	for i := range 1000 {
		d.Annotations[fmt.Sprintf("schedule-night.svc/x%03d", i)] = strings.Repeat("x", 100)
	}
	want := map[string]string{
		night.AnnotationOn: "true", night.AnnotationExpected: "3",
		"schedule-night.svc/x000": "", "schedule-night.svc/x001": "", "schedule-night.svc/x002": "",
	}
	if got := workloadtest.Of(d).Annotations; !maps.Equal(got, want) {
		t.Errorf("of 1000 names, %v are kept", got)
	}
}

// TestTemplate: a Pod template has a number of its own, which nothing else changes.
func TestTemplate(t *testing.T) {
	d := workloadtest.Deployment(3)
	d.Spec.Template.Labels = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
	first := workloadtest.Of(d).Template
	for range 20 {
		d = workloadtest.AsleepSince(d.DeepCopy())
		d.Annotations["example.com/x"], d.Labels = "y", map[string]string{"x": "y"}
		if got := workloadtest.Of(d).Template; got != first {
			t.Fatalf("got %d, want %d", got, first)
		}
	}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "app:2"}}
	if got := workloadtest.Of(d).Template; got == first {
		t.Errorf("another image has the same number, %d", got)
	}
	if got := workloadtest.Of(workloadtest.Without(d, "expected")).Template; got != 0 {
		t.Errorf("without %s it costs its time, and is %d", night.AnnotationExpected, got)
	}
}

func annotated(d *appsv1.Deployment, name, value string) *appsv1.Deployment {
	d.Annotations = maps.Clone(d.Annotations)
	d.Annotations[name] = value
	return d
}

// TestHugeRequests: quantities that an API server takes, and with which sums of them take
// minutes, cost nobody anything: neither time, nor the totals of all.
func TestHugeRequests(t *testing.T) {
	for _, huge := range []string{"1e10000000", "1e100000000", "0e400", "1e400", "1e-400", "9223372036854775807", "9223372036854775807Ei", strings.Repeat("9", 1000)} {
		text := fmt.Sprintf(`{"metadata":{"name":"web","annotations":{"schedule-night.svc/expected":"3"}},"spec":{"template":{"spec":{"containers":[
			{"resources":{"requests":{"cpu":%q,"memory":%q}}}, {"resources":{"requests":{"cpu":"250m","memory":"1Mi"}}}]}}}}`, huge, huge)
		var d appsv1.Deployment
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		r := workload.Self{}.FromDeployment(&d).Requests
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("%.20s: took %v", huge, took)
		}
		for _, sum := range []float64{1e6 * r.Cores, 1e6 * r.Gibibytes, 0 * r.Cores, r.Cores - 0.25} {
			if math.IsNaN(sum) || math.IsInf(sum, 0) || sum < 0 {
				t.Errorf("%.20s: %+v", huge, r)
			}
		}
	}
}
