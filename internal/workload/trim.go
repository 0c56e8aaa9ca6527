package workload

import (
	"hash/fnv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

const (
	// sharedObjects is how many objects of a sort are remembered to be shared. One that
	// has been forgotten is only not shared any more.
	sharedObjects = 1024
	// maxSharedText bounds, in bytes, the text in what is remembered, which outlives the
	// workloads that it came from.
	maxSharedText = 512
	// maxUnknown is how many annotations that are misspelt are kept of an object: those that
	// its owner hears of first.
	maxUnknown = 3
)

// Self is who this process is: the namespace of its Pod and the name of its ServiceAccount;
// without a name, which the API server may not tell, all of the namespace is taken for it.
// The zero value, outside a Pod, is nobody's.
type Self struct{ Namespace, ServiceAccount string }

// SelfOf is who a Pod in the namespace is, by the name that the API server has for its user:
// ServiceAccounts are called system:serviceaccount:NAMESPACE:NAME.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#service-account-tokens
func SelfOf(namespace, user string) Self {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	_, name, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		return Self{Namespace: namespace}
	}
	return Self{namespace, name}
}

// Transform makes of what an informer receives the small form that its cache holds. It
// is a cache.TransformFunc, and idempotent as those must be.
func (s Self) Transform(obj any) (any, error) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return s.FromDeployment(obj), nil
	case *autoscalingv2.HorizontalPodAutoscaler:
		return trimAutoscaler(obj), nil
	}
	return obj, nil // a tombstone or made before
}

// deploymentKind is one for all.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// FromDeployment is a Deployment as a Workload. Nothing of the Deployment's is kept in
// memory by it but texts.
func (s Self) FromDeployment(d *appsv1.Deployment) *Workload {
	return &Workload{
		Meta:       trimMeta(&d.ObjectMeta),
		Kind:       &deploymentKind,
		Replicas:   ptr.Deref(d.Spec.Replicas, 1),
		Record:     conditionRecord(d),
		Requests:   podRequests(&d.Spec.Template.Spec),
		Template:   templateHash(d),
		Controlled: metav1.GetControllerOfNoCopy(d) != nil,
		Ours:       s.runs(d.Namespace, &d.Spec.Template.Spec),
	}
}

func (s Self) runs(namespace string, spec *corev1.PodSpec) bool {
	return s.Namespace != "" && s.Namespace == namespace && (s.ServiceAccount == "" || s.ServiceAccount == spec.ServiceAccountName)
}

// annotationValues are what annotations say, in the order of night.AnnotationNames, and
// which others have our prefix.
type annotationValues struct {
	known [len(night.AnnotationNames)]struct {
		value string
		ok    bool
	}
	unknown [maxUnknown]string // "" where there are no more: no name is empty
}

// Many workloads have the same namespace and schedule, many records are written in a
// second, and many Pods request the same.
var (
	sharedNamespaces  = newShared[string, string]()
	sharedAnnotations = newShared[annotationValues, map[string]string]()
	sharedRecords     = newShared[Record, *Record]()
	sharedRequests    = newShared[Requests, *Requests]()
)

// trimAnnotations keeps those that the schedule reads, and the names of some that are
// misspelt; nil if there are none. A value that is too long is cut, and still too long.
func trimAnnotations(annotations map[string]string) map[string]string {
	var values annotationValues
	found, text := 0, 0
	for i, name := range night.AnnotationNames {
		value, ok := annotations[name]
		if !ok {
			continue
		}
		if len(value) > night.MaxText {
			value = strings.Clone(value[:night.MaxText+1])
		}
		values.known[i].value, values.known[i].ok = value, true
		found++
		text += len(value)
	}
	if found < len(annotations) {
		for _, name := range values.unknown[:copy(values.unknown[:], night.Unknown(annotations))] {
			found++
			text += len(name)
		}
	}
	if found == 0 {
		return nil
	}
	return sharedAnnotations.of(values, text, func() map[string]string {
		kept := make(map[string]string, found)
		for i, name := range night.AnnotationNames {
			if values.known[i].ok {
				kept[name] = values.known[i].value
			}
		}
		for _, name := range values.unknown {
			if name != "" {
				kept[name] = ""
			}
		}
		return kept
	})
}

// templateHash tells Pod templates apart; 0 if that cannot be told. It costs more than all
// else here, and is of use only where the template and AnnotationExpected change together.
func templateHash(d *appsv1.Deployment) uint32 {
	if _, ok := d.Annotations[night.AnnotationExpected]; !ok {
		return 0
	}
	text, err := d.Spec.Template.Marshal()
	if err != nil {
		return 0
	}
	hash := fnv.New32a()
	_, _ = hash.Write(text) // never fails
	return hash.Sum32()
}

// Requests are what one Pod asks for as long as it runs.
type Requests struct{ Cores, Gibibytes float64 }

// podRequests sums up a Pod's own requests where it has them, else those of its
// containers and sidecars; nil if there are none.
func podRequests(spec *corev1.PodSpec) *Requests {
	var r Requests
	add := func(requests corev1.ResourceList) {
		r.Cores += amount(requests.Cpu())
		r.Gibibytes += amount(requests.Memory()) / (1 << 30)
	}
	if spec.Resources != nil && len(spec.Resources.Requests) > 0 {
		add(spec.Resources.Requests)
	} else {
		for i := range spec.Containers {
			add(spec.Containers[i].Resources.Requests)
		}
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
				add(c.Resources.Requests)
			}
		}
	}
	if r == (Requests{}) {
		return nil
	}
	return sharedRequests.of(r, 0, func() *Requests { return &r })
}

// amount is a quantity, within reason. An API server takes 1e10000000 cores, which are
// infinitely many to a float64, and would be all that is told of others' savings. The sum of
// that and 1, by Quantity.Add, takes seconds, in which the cache stands still.
func amount(q *resource.Quantity) float64 {
	const most = 1e18
	if n := q.AsApproximateFloat64(); n > 0 {
		return min(n, most)
	}
	return 0 // also where that is no number, as of 0e400
}

// shared has one object for all workloads that have an equal one: most of what is kept
// of a workload besides its name is many others' too.
type shared[K comparable, V any] struct{ recent *lru.Cache }

func newShared[K comparable, V any]() shared[K, V] { return shared[K, V]{lru.New(sharedObjects)} }

// of is the object for a key with so many bytes of text, made anew if there is none.
func (s shared[K, V]) of(key K, text int, build func() V) V {
	if text > maxSharedText {
		return build()
	}
	if v, ok := s.recent.Get(key); ok {
		return v.(V)
	}
	v := build()
	s.recent.Add(key, v)
	return v
}
