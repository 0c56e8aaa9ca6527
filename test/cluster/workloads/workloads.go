// Package workloads runs Kubernetes' own controllers of Deployments, ReplicaSets and
// ServiceAccounts in this process. Where no other controller of the controller manager is
// needed, that program need not be built.
package workloads

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

const workers = 2

// Start starts the controllers. They stop when ctx is done; the returned function waits
// for that.
func Start(ctx context.Context, config *rest.Config) (wait func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	apps, core := factory.Apps().V1(), factory.Core().V1()
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
	if err != nil {
		return nil, fmt.Errorf("making the controller of Deployments: %w", err)
	}
	replicaSets := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, fmt.Errorf("making the controller of ServiceAccounts: %w", err)
	}
	factory.StartWithContext(ctx)
	var group sync.WaitGroup
	for _, run := range []func(context.Context, int){deployments.Run, replicaSets.Run, accounts.Run} {
		group.Go(func() { run(ctx, workers) })
	}
	return func() {
		group.Wait()
		factory.Shutdown()
	}, nil
}
