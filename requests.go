package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// podRequests sums up what a Pod requests as long as it runs: its own requests where
// it has them, else those of its containers and sidecars. The sum is in the form of
// a Pod's own requests, so that a trimmed Deployment can carry it; nil if there are none.
func podRequests(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	var cpu, memory resource.Quantity
	add := func(requests corev1.ResourceList) {
		cpu.Add(*requests.Cpu())
		memory.Add(*requests.Memory())
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
	if cpu.IsZero() && memory.IsZero() {
		return nil
	}
	key := requestsSum{cpu.String(), memory.String()}
	return sharedRequests.of(key, len(key.cpu)+len(key.memory), func() *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}}
	})
}

// requestsSum is a sum in canonical form.
type requestsSum struct{ cpu, memory string }

var sharedRequests = newShared[requestsSum, *corev1.ResourceRequirements]()

// requests are what one Pod asks for as long as it runs.
func requests(spec *corev1.PodSpec) (cores, gibibytes float64) {
	if r := podRequests(spec); r != nil {
		cores = r.Requests.Cpu().AsApproximateFloat64()
		gibibytes = r.Requests.Memory().AsApproximateFloat64() / (1 << 30)
	}
	return cores, gibibytes
}
