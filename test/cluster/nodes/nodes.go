// Package nodes stands in for kubelets, and for the scheduler where there is none: nodes
// are Ready, Pods become Ready as soon as they are bound, and are gone as soon as they are
// deleted. No container ever runs.
package nodes

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

const (
	lease    = 40 * time.Second // how long a node counts as alive after a heartbeat
	leases   = corev1.NamespaceNodeLease
	workers  = 4
	minRetry = 50 * time.Millisecond
	maxRetry = 2 * time.Second // the API server may be away for a while
)

type nodes struct {
	client *kubernetes.Clientset
	names  []string
	bind   bool
	pods   cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// Start makes n nodes and keeps them alive until ctx is done; the returned function waits
// for the end. With bind it does the work of the scheduler as well.
func Start(ctx context.Context, config *rest.Config, n int, bind bool) (wait func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the nodes' client: %w", err)
	}
	s := &nodes{client: client, bind: bind}
	for i := range n {
		name := "node-" + strconv.Itoa(i)
		s.names = append(s.names, name)
		if err := s.make(ctx, name); err != nil {
			return nil, err
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	s.pods = factory.Core().V1().Pods().Informer()
	s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry))
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			s.queue.Add(key)
		}
	}
	if _, err := s.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
	}); err != nil {
		return nil, fmt.Errorf("watching Pods: %w", err)
	}
	factory.StartWithContext(ctx)

	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	group.Go(func() { s.beat(ctx) })
	return func() {
		<-ctx.Done()
		s.queue.ShutDown()
		group.Wait()
		factory.Shutdown()
	}, nil
}

// make makes a node that is Ready, if there is none of the name.
func (s *nodes) make(ctx context.Context, name string) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("100000"),
	}
	now := metav1.Now()
	_, err := s.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now,
		}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making a node: %w", err)
	}
	return nil
}

// beat renews the nodes' Leases; without that the controller manager would take them
// for dead.
func (s *nodes) beat(ctx context.Context) {
	ticker := time.NewTicker(lease / 4)
	defer ticker.Stop()
	for {
		for _, name := range s.names {
			beat := coordinationv1.Lease(name, leases).WithSpec(coordinationv1.LeaseSpec().
				WithHolderIdentity(name).WithLeaseDurationSeconds(int32(lease.Seconds())).WithRenewTime(metav1.NowMicro()))
			// An error leaves nothing to do: there is another beat.
			_, _ = s.client.CoordinationV1().Leases(leases).Apply(ctx, beat, metav1.ApplyOptions{FieldManager: "nodes", Force: true})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// next does for one Pod what is to be done, and tells whether there may be another.
func (s *nodes) next(ctx context.Context) bool {
	key, shutDown := s.queue.Get()
	if shutDown {
		return false
	}
	defer s.queue.Done(key)
	object, exists, err := s.pods.GetStore().GetByKey(key)
	if err == nil && exists {
		err = s.sync(ctx, object.(*corev1.Pod))
	}
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		s.queue.Forget(key)
	} else {
		s.queue.AddRateLimited(key)
	}
	return true
}

func (s *nodes) sync(ctx context.Context, pod *corev1.Pod) error {
	pods := s.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Spec.NodeName == "" && s.bind:
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: s.names[int(pod.UID[0])%len(s.names)]},
		}, metav1.CreateOptions{})
	case pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending:
		return nil
	}
	now := metav1.Now()
	pod = pod.DeepCopy()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
