package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // what kubeconfigs name under auth-provider, as in kubectl
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
)

// RequestTimeout bounds every request but watches and the Lease's.
const RequestTimeout = 10 * time.Second

// neverManaged are the namespaces without which a cluster is none.
var neverManaged = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// ClusterOptions say which API server to talk to, as whom and how fast, and which of its
// namespaces to look at.
type ClusterOptions struct {
	// Unset says in the help what --namespace is where it is left out.
	Unset string

	Kubeconfig, Context string
	Namespace           string
	Excluded            []string
	QPS                 float32
	Burst               int
}

// AddFlags implements Options.
func (o *ClusterOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of a kubeconfig")
	fs.StringVar(&o.Context, "context", "", "context of the kubeconfig (default: its current one)")
	fs.StringVarP(&o.Namespace, "namespace", "n", "", "the only namespace to look at (default: "+cmp.Or(o.Unset, "all")+")")
	fs.StringSliceVar(&o.Excluded, "exclude-namespaces", nil, "namespaces that are not managed, besides kube-system, kube-public and kube-node-lease")
	fs.Float32Var(&o.QPS, "kube-api-qps", 100, "requests a second to the API server; -1 leaves the limit to the server")
	fs.IntVar(&o.Burst, "kube-api-burst", 200, "requests at once above --kube-api-qps")
}

// Validate implements Options.
func (o *ClusterOptions) Validate() error {
	var errs []error
	check := func(flag, namespace string) {
		if msgs := validation.IsDNS1123Label(namespace); namespace != "" && len(msgs) > 0 {
			errs = append(errs, FlagError(flag, namespace, "is not a namespace: %s", msgs[0]))
		}
	}
	check("namespace", o.Namespace)
	for _, namespace := range o.Excluded {
		check("exclude-namespaces", namespace)
	}
	switch {
	case slices.Contains(neverManaged, o.Namespace):
		errs = append(errs, FlagError("namespace", o.Namespace, "is never managed"))
	case o.Namespace != "" && slices.Contains(o.Excluded, o.Namespace):
		errs = append(errs, FlagError("namespace", o.Namespace, "is among --exclude-namespaces"))
	}
	if qps := o.QPS; qps != -1 && !(qps > 0) {
		errs = append(errs, FlagError("kube-api-qps", qps, "want more than 0, or -1"))
	}
	if o.Burst < 1 {
		errs = append(errs, FlagError("kube-api-burst", o.Burst, "want 1 or more"))
	}
	return errors.Join(errs...)
}

// AllExcluded are the namespaces that are not managed: those of the flag, and those that
// never are.
func (o *ClusterOptions) AllExcluded() []string { return slices.Concat(o.Excluded, neverManaged) }

// RESTConfig finds the API server and our identity; namespace is that of our pod
// or of the kubeconfig's context.
func (o *ClusterOptions) RESTConfig() (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false // noConfig says it
	// $KUBECONFIG is a choice; ~/.kube/config is only what is left when this is no pod.
	notInPod := rest.ErrNotInCluster
	if o.Kubeconfig == "" && o.Context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if notInPod = err; err == nil {
			namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
			if err != nil {
				return nil, "", fmt.Errorf("reading the pod's namespace: %w", err)
			}
			return o.tuned(config), strings.TrimSpace(string(namespace)), nil
		}
	}
	clientConfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err = clientConfig.ClientConfig()
	if err != nil {
		if missing := o.noConfig(rules, err, notInPod); missing != nil {
			return nil, "", missing
		}
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err = clientConfig.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return o.tuned(config), namespace, nil
}

// noConfig says in plain words what is missing where err is that there is no configuration
// at all; else it is nil. NotInPod is why it is not that of a Pod.
func (o *ClusterOptions) noConfig(rules *clientcmd.ClientConfigLoadingRules, err, notInPod error) error {
	empty := clientcmd.IsEmptyConfig(err)
	if o.Kubeconfig != "" {
		if empty {
			return FlagError("kubeconfig", o.Kubeconfig, "there is no cluster in it")
		}
		return nil
	}
	named, found := 0, 0
	for _, file := range rules.Precedence {
		if file == "" {
			continue
		}
		named++
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			found++
		}
	}
	variable := clientcmd.RecommendedConfigPathEnvVar
	chosen := os.Getenv(variable)
	switch {
	case chosen != "" && named == 0:
		return fmt.Errorf("$%s %q: it names no file", variable, chosen)
	case chosen != "" && found == 0 && named == 1:
		return fmt.Errorf("$%s %q: there is no such file", variable, chosen)
	case chosen != "" && found == 0:
		return fmt.Errorf("$%s %q: there is none of these files", variable, chosen)
	case chosen != "" && empty:
		return fmt.Errorf("$%s %q: there is no cluster in it", variable, chosen)
	case o.Context != "" && found == 0:
		return FlagError("context", o.Context, "there is no kubeconfig")
	case empty && !errors.Is(notInPod, rest.ErrNotInCluster):
		return fmt.Errorf("in a Pod, but without the token of a ServiceAccount (is automountServiceAccountToken false?): %w", notInPod)
	case empty:
		return errors.New("no cluster: give --kubeconfig or $KUBECONFIG, run in a pod, or have a ~/.kube/config")
	}
	return nil
}

func (o *ClusterOptions) tuned(config *rest.Config) *rest.Config {
	config.UserAgent = "schedule-night/" + ModuleVersion()
	config.ContentType = apiruntime.ContentTypeProtobuf
	config.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	config.DisableCompression = true // as Kubernetes' own controllers: packing a watch takes time of the API server's
	config.QPS, config.Burst = o.QPS, o.Burst
	return config
}

// Identity asks the API server who we are, which also tells that it is there.
func Identity(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case err == nil:
		return review.Status.UserInfo.Username, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // it is there, and does not tell
		return "unknown", nil
	}
	return "", fmt.Errorf("cannot reach the API server: %w", err)
}

// SelectOptions say which objects a command is about.
type SelectOptions struct {
	AllNamespaces bool
	Labels        string

	selector labels.Selector // by Validate
}

// AddFlags implements Options.
func (o *SelectOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "look at all namespaces, whatever --namespace says")
	fs.StringVarP(&o.Labels, "selector", "l", "", "only Deployments with these `LABELS`, e.g. app=web,tier!=db")
}

// Validate implements Options.
func (o *SelectOptions) Validate() (err error) {
	if o.selector, err = labels.Parse(o.Labels); err != nil {
		return FlagError("selector", o.Labels, "%w", err)
	}
	return nil
}

// Scope is which objects of a cluster, or of manifests, a command is about.
type Scope struct {
	Namespace string // "" is all
	Excluded  []string
	Selector  labels.Selector
}

// Scope is what the options select of manifests, which have no namespace of their own to
// start from. They must have been validated.
func (o *SelectOptions) Scope(cluster *ClusterOptions) Scope {
	s := Scope{cluster.Namespace, cluster.AllExcluded(), o.selector}
	if o.AllNamespaces {
		s.Namespace = metav1.NamespaceAll
	}
	return s
}

// Connect makes the client of a command, and tells what the options select of the
// cluster: without --namespace, what is in the kubeconfig's.
func (o *SelectOptions) Connect(cluster *ClusterOptions) (kubernetes.Interface, Scope, error) {
	s := o.Scope(cluster)
	config, namespace, err := cluster.RESTConfig()
	if err != nil {
		return nil, s, err
	}
	config.Timeout = RequestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, s, fmt.Errorf("making the client: %w", err)
	}
	if !o.AllNamespaces {
		s.Namespace = cmp.Or(s.Namespace, namespace)
	}
	return client, s, nil
}

// HasNamespace tells whether what is in the namespace was asked for.
func (s *Scope) HasNamespace(namespace string) bool {
	return (s.Namespace == "" || s.Namespace == namespace) && !slices.Contains(s.Excluded, namespace)
}

// Has tells whether the object was asked for.
func (s *Scope) Has(object metav1.Object) bool {
	return s.HasNamespace(object.GetNamespace()) && s.Selector.Matches(labels.Set(object.GetLabels()))
}

// EachListed lists page by page, and calls f with each item until it fails. What says what
// is listed.
func EachListed[L, T apiruntime.Object](ctx context.Context, what string, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, f func(T) error) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (apiruntime.Object, error) {
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, options, func(item apiruntime.Object) error { return f(item.(T)) })
	if err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}
