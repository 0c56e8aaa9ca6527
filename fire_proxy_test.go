//go:build fire

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trouble is what a proxy does to the requests that pass through it. Shares are
// from 0 to 1.
type trouble struct {
	dropped  bool          // nothing passes, in either direction, and nobody is told
	delay    time.Duration // the longest; before the request goes on
	resets   float64       // share of requests whose connection breaks, half of them after they were carried out
	refusals float64       // share of requests that are answered with code
	code     int
	gone     bool // watches are answered with 410 Gone
	stale    bool // lists are answered from a snapshot, and streaming ones refused
}

// faultProxy stands between one process and the API server.
type faultProxy struct {
	server *httptest.Server

	mu       sync.Mutex
	trouble  trouble
	healed   chan struct{} // closed when dropped ends
	sender   string        // stamped on each request, for the audit log
	lister   *http.Request // the last request that listed or watched Deployments
	snapshot *http.Response
	body     []byte                     // of the snapshot
	watches  map[int]context.CancelFunc // in progress
	nextID   int
}

// newFaultProxy starts a proxy to the API server at target, over transport.
func newFaultProxy(target *url.URL, transport http.RoundTripper) *faultProxy {
	p := &faultProxy{healed: make(chan struct{}), watches: map[int]context.CancelFunc{}}
	reverse := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watch events go out as they come
		ModifyResponse: p.back,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.forth(w, r, reverse) }))
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	return p
}

func (p *faultProxy) close() {
	p.set(trouble{})
	p.cutWatches()
	p.server.CloseClientConnections()
	p.server.Close()
}

// set changes what the proxy does from now on.
func (p *faultProxy) set(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble.dropped && !t.dropped {
		close(p.healed)
	}
	if !p.trouble.dropped && t.dropped {
		p.healed = make(chan struct{})
	}
	p.trouble = t
}

// cutWatches ends all watches that are in progress.
func (p *faultProxy) cutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cut := range p.watches {
		cut()
	}
}

// wait returns when nothing is dropped, or with the request's end.
func (p *faultProxy) wait(ctx context.Context) error {
	p.mu.Lock()
	dropped, healed := p.trouble.dropped, p.healed
	p.mu.Unlock()
	if !dropped {
		return nil
	}
	select {
	case <-healed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type resetAfterKey struct{}

// forth takes a request on its way to the API server.
func (p *faultProxy) forth(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p.mu.Lock()
	t, sender := p.trouble, p.sender
	ofDeployments := strings.HasSuffix(r.URL.Path, "/deployments")
	if ofDeployments && r.Method == http.MethodGet {
		p.lister = r.Clone(context.Background())
	}
	snapshot := p.snapshot
	p.mu.Unlock()

	// Who sent it, and when: on its way and in the API server it may be held up.
	r.Header.Set("User-Agent", sender+"@"+strconv.FormatInt(time.Now().UnixNano(), 10))
	if p.wait(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	if t.delay > 0 {
		select {
		case <-time.After(rand.N(t.delay)):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	query := r.URL.Query()
	watch := query.Get("watch") == "true"
	switch luck := rand.Float64(); {
	case luck < t.resets/2:
		panic(http.ErrAbortHandler)
	case luck < t.resets:
		r = r.WithContext(context.WithValue(r.Context(), resetAfterKey{}, true))
	case luck < t.resets+t.refusals:
		if t.code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		answer(w, t.code, "")
		return
	}
	switch {
	case t.stale && ofDeployments && watch && query.Get("sendInitialEvents") == "true":
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	case (t.gone || t.stale) && watch:
		answer(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	case t.stale && ofDeployments && snapshot != nil:
		w.Header().Set("Content-Type", snapshot.Header.Get("Content-Type"))
		_, _ = w.Write(p.body) // a client that is gone does not want it
		return
	}
	if watch {
		ctx, cut := context.WithCancel(r.Context())
		defer cut()
		p.mu.Lock()
		id := p.nextID
		p.nextID++
		p.watches[id] = cut
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.watches, id)
			p.mu.Unlock()
		}()
		r = r.WithContext(ctx)
	}
	next.ServeHTTP(w, r)
}

// back takes a response on its way to the process.
func (p *faultProxy) back(r *http.Response) error {
	if r.Request.Context().Value(resetAfterKey{}) != nil {
		r.Body.Close()
		return errors.New("reset after the request was carried out")
	}
	if err := p.wait(r.Request.Context()); err != nil {
		r.Body.Close()
		return err
	}
	r.Body = &heldBody{ReadCloser: r.Body, proxy: p, ctx: r.Request.Context()}
	return nil
}

// heldBody is a response's body that a partition holds back.
type heldBody struct {
	io.ReadCloser
	proxy *faultProxy
	ctx   context.Context
}

func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if waitErr := b.proxy.wait(b.ctx); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// takeSnapshot keeps what a list of Deployments yields now, in the process's own
// format and with its own rights.
func (p *faultProxy) takeSnapshot(target *url.URL, transport http.RoundTripper) error {
	p.mu.Lock()
	lister := p.lister
	p.mu.Unlock()
	if lister == nil {
		return errors.New("the process has not listed anything yet")
	}
	list := lister.Clone(context.Background())
	query := list.URL.Query()
	for _, name := range []string{"watch", "sendInitialEvents", "allowWatchBookmarks", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"} {
		query.Del(name)
	}
	list.URL = &url.URL{Scheme: target.Scheme, Host: target.Host, Path: list.URL.Path, RawQuery: query.Encode()}
	list.Host, list.RequestURI = "", ""
	list.Header.Set("User-Agent", "snapshot@0")
	// A stream's content type is not a list's.
	list.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
	list.Header.Del("Accept-Encoding")
	response, err := transport.RoundTrip(list)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status + ": " + string(bytes.TrimSpace(body)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshot, p.body = response, body
	return nil
}

// answer is a Status of the API server's form.
func answer(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a client that is gone does not want it
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "a fault: " + strconv.Itoa(code),
	})
}
