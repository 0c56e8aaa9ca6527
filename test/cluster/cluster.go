// Package cluster runs a Kubernetes control plane of real parts on this machine:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler; and nodes, simulated
// in this process, on which Pods become Ready. All listen on loopback only.
package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"schedule-night/test/cluster/nodes"
)

const (
	// readyTimeout bounds how long a part may take to become ready.
	readyTimeout = 2 * time.Minute
	// stopTimeout is how long a part may take to end before it is killed.
	stopTimeout = 10 * time.Second
	poll        = 50 * time.Millisecond
)

// Options choose what runs. The zero value is everything.
type Options struct {
	Dir string    // for data, logs and kubeconfigs; made if missing
	Log io.Writer // for progress; nil: none
	// Storage leaves out all but etcd and the API server.
	Storage bool
	// Nodes is how many nodes to make; 0: one.
	Nodes int
	// Flags are added to those of a part, by its name.
	Flags map[string][]string
}

// Cluster is a running control plane.
type Cluster struct {
	Dir        string
	Kubeconfig string // of an administrator
	Config     *rest.Config
	Client     *kubernetes.Clientset

	log    io.Writer
	paths  map[string]string
	server string // URL
	flags  map[string][]string
	order  []string // of starting
	// leave ends what this process does for the cluster.
	leave func()

	mu    sync.Mutex
	parts map[string]*part

	audited audited
}

// part is a running program.
type part struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// users are the tokens' owners: each part runs under the name that Kubernetes'
// own RBAC rules know.
var users = map[string]struct{ name, group string }{
	"admin":           {"admin", "system:masters"},
	ControllerManager: {"system:kube-controller-manager", ""},
	Scheduler:         {"system:kube-scheduler", ""},
}

// Start builds what is missing, starts a control plane, and returns when it is
// ready. The caller must call Stop, unless Start failed.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	log := options.Log
	if log == nil {
		log = io.Discard
	}
	c := &Cluster{Dir: options.Dir, log: log, parts: map[string]*part{}, flags: map[string][]string{}, leave: func() {}}
	var needed []string // all
	if options.Storage {
		needed = storagePrograms
	}
	if c.paths, err = Build(ctx, log, needed...); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err := c.prepare(options); err != nil {
		return nil, err
	}
	for _, name := range []string{Etcd, APIServer} {
		if err := c.StartPart(ctx, name); err != nil {
			return nil, err
		}
	}
	if options.Storage {
		c.order = []string{Etcd, APIServer}
		return c, nil
	}
	c.order = []string{Etcd, APIServer, ControllerManager, Scheduler}
	for _, name := range c.order[2:] {
		if err := c.StartPart(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := c.Join(ctx, func(ctx context.Context, config *rest.Config) (func(), error) {
		return nodes.Start(ctx, config, max(options.Nodes, 1), false)
	}); err != nil {
		return nil, err
	}
	return c, c.waitForServiceAccounts(ctx)
}

// Join has this process take a part's place until the cluster stops: start returns when
// that part is at work, ends it when its context is done, and returns a function that
// waits for that.
func (c *Cluster) Join(ctx context.Context, start func(context.Context, *rest.Config) (wait func(), err error)) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends in its order
	wait, err := start(ctx, c.Config)
	if err != nil {
		cancel()
		return err
	}
	before := c.leave
	c.leave = func() {
		cancel()
		wait()
		before()
	}
	return nil
}

// Stop ends all parts, the last started first, and returns when they are gone.
func (c *Cluster) Stop() {
	c.leave()
	for i := len(c.order) - 1; i >= 0; i-- {
		c.StopPart(c.order[i])
	}
	c.StopPart(APIServer) // where Start failed on its way
	c.StopPart(Etcd)
}

// Path is where the program of the given name is.
func (c *Cluster) Path(name string) string { return c.paths[name] }

// PID is the process of a part, 0 if it was not started.
func (c *Cluster) PID(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[name]; p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Apply applies manifests, a file or a folder, as an administrator.
func (c *Cluster) Apply(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, c.Path(Kubectl), "--kubeconfig", c.Kubeconfig, "apply", "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("applying %s: %w\n%s", path, err, out)
	}
	return nil
}

// AuditLog is the file to which the API server appends a line for each request.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// prepare writes the files and flags that the parts need.
func (c *Cluster) prepare(options Options) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	etcd := "http://127.0.0.1:" + ports[0]
	peer := "http://127.0.0.1:" + ports[1]
	c.server = "https://127.0.0.1:" + ports[2]
	c.Kubeconfig = c.kubeconfig("admin")
	file := func(name string) string { return filepath.Join(c.Dir, name) }

	var tokens strings.Builder
	for part, user := range users {
		token := make([]byte, 16)
		rand.Read(token) // never fails
		fmt.Fprintf(&tokens, "%x,%s,%s,%q\n", token, user.name, user.name, user.group)
		if err := c.writeKubeconfig(c.kubeconfig(part), "default", hex.EncodeToString(token)); err != nil {
			return err
		}
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"tokens.csv":          tokens.String(),
		"service-account.key": key,
		"audit-policy.yaml":   auditPolicy,
	} {
		if err := os.WriteFile(file(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("preparing the cluster: %w", err)
		}
	}

	c.flags[Etcd] = []string{
		"--data-dir=" + file("etcd"), "--name=default", "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
	}
	c.flags[APIServer] = []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--secure-port=" + ports[2],
		"--cert-dir=" + file("apiserver"), "--token-auth-file=" + file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("service-account.key"), "--service-account-signing-key-file=" + file("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		"--audit-policy-file=" + file("audit-policy.yaml"), "--audit-log-path=" + c.AuditLog(), "--audit-log-maxsize=" + strconv.Itoa(1<<20), // MB: never another file
	}
	c.flags[ControllerManager] = []string{
		"--kubeconfig=" + c.kubeconfig(ControllerManager), "--authentication-kubeconfig=" + c.kubeconfig(ControllerManager),
		"--authorization-kubeconfig=" + c.kubeconfig(ControllerManager),
		"--bind-address=127.0.0.1", "--secure-port=" + ports[3], "--cert-dir=" + file("controller-manager"),
		"--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + file("service-account.key"), "--root-ca-file=" + c.serverCert(),
	}
	c.flags[Scheduler] = []string{
		"--kubeconfig=" + c.kubeconfig(Scheduler), "--authentication-kubeconfig=" + c.kubeconfig(Scheduler),
		"--authorization-kubeconfig=" + c.kubeconfig(Scheduler),
		"--bind-address=127.0.0.1", "--secure-port=" + ports[4], "--cert-dir=" + file("scheduler"), "--leader-elect=false",
	}
	for name, flags := range options.Flags {
		c.flags[name] = append(c.flags[name], flags...)
	}
	return nil
}

// auditPolicy logs who does what to which object, and the bodies of writes to
// Deployments and Leases, whose counts, conditions and holders tests look at.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/livez*", "/readyz*", "/healthz*"]
- level: Request
  verbs: [create, update, patch, delete]
  resources:
  - {group: apps, resources: [deployments, deployments/scale, deployments/status]}
  - {group: coordination.k8s.io, resources: [leases]}
- level: Metadata
`

func (c *Cluster) serverCert() string { return filepath.Join(c.Dir, "apiserver", "apiserver.crt") }

func (c *Cluster) kubeconfig(user string) string {
	return filepath.Join(c.Dir, user+".kubeconfig")
}

func (c *Cluster) writeKubeconfig(path, namespace, token string) error {
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"local": {Server: c.server, CertificateAuthority: c.serverCert()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"local": {Cluster: "local", AuthInfo: "user", Namespace: namespace}},
		CurrentContext: "local",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a ServiceAccount, and
// its namespace as the default, as in a Pod. It returns the file's path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	expiry := int64((10 * time.Hour).Seconds())
	request, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expiry}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("getting a token: %w", err)
	}
	path := c.kubeconfig(namespace + "." + name)
	return path, c.writeKubeconfig(path, namespace, request.Status.Token)
}

// StartPart starts a part that is not running and returns when it is ready.
func (c *Cluster) StartPart(ctx context.Context, name string) error {
	log, err := os.OpenFile(filepath.Join(c.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer log.Close()        // the child has its own
	if c.paths[name] == "" { // the storage alone was asked for until now
		paths, err := Build(ctx, c.log, name)
		if err != nil {
			return err
		}
		c.paths[name] = paths[name]
	}
	cmd := exec.Command(c.paths[name], c.flags[name]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	p := &part{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(p.done); _ = cmd.Wait() }()
	c.mu.Lock()
	c.parts[name] = p
	c.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s ended: %w", name, last)
		default:
		}
		last = c.ready(ctx, name)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s did not become ready: %w; last: %w\n%s", name, err, last, c.tail(name))
	}
	return nil
}

// ready tells whether a part does its work.
func (c *Cluster) ready(ctx context.Context, name string) error {
	switch name {
	case Etcd:
		address := strings.TrimPrefix(flagValue(c.flags[Etcd], "--listen-client-urls="), "http://")
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	case APIServer:
		if c.Client == nil {
			config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
			if err != nil {
				return err
			}
			config.QPS = -1
			if c.Client, err = kubernetes.NewForConfig(config); err != nil {
				c.Client = nil
				return err
			}
			c.Config = config
		}
		_, err := c.Client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}
	return nil // the others retry until they have what they need
}

// StopPart ends a part in good order, and waits for it.
func (c *Cluster) StopPart(name string) { c.end(name, syscall.SIGTERM) }

// KillPart ends a part at once.
func (c *Cluster) KillPart(name string) { c.end(name, syscall.SIGKILL) }

// SignalPart sends a signal, such as SIGSTOP or SIGCONT, to a running part.
func (c *Cluster) SignalPart(name string, signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts[name] == nil {
		return fmt.Errorf("%s is not running", name)
	}
	return c.parts[name].cmd.Process.Signal(signal)
}

func (c *Cluster) end(name string, signal syscall.Signal) {
	c.mu.Lock()
	p := c.parts[name]
	delete(c.parts, name)
	c.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(signal) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail is the end of a part's log, to go with an error.
func (c *Cluster) tail(name string) string {
	content, err := os.ReadFile(filepath.Join(c.Dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// waitForServiceAccounts waits for what Pods need before they can be made: the
// controller manager is then at work.
func (c *Cluster) waitForServiceAccounts(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the controller manager did not start to work: %w\n%s", err, c.tail(ControllerManager))
	}
	return nil
}

func flagValue(flags []string, name string) string {
	for _, flag := range flags {
		if value, ok := strings.CutPrefix(flag, name); ok {
			return value
		}
	}
	return ""
}

// freePorts finds n ports of loopback that are free now.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close() // not before all are found, or one may be found twice
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// newKey makes a key that signs ServiceAccounts' tokens.
func newKey() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding a key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), nil
}
