// Package web serves what operators, their tools and a browser ask for over HTTP.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// What a client may take of the server's time and memory.
const (
	headerPatience  = 5 * time.Second  // until its request is there
	requestPatience = 15 * time.Second // until it has read the answer
	maxHeaderBytes  = 16 << 10         // of a request, its URL and the cookies of a proxy included
)

// Check is a named condition of /livez or /readyz.
type Check struct {
	Name string
	Fail func() error // nil: well
}

// NewHandler serves what operators and their tools ask for over HTTP. There need not
// be a status page.
func NewHandler(livez, readyz []Check, page *Page) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", checkHandler(livez)) // these two wait for nothing
	mux.Handle("GET /readyz", checkHandler(readyz))
	turn := newTurn()
	mux.Handle("GET /metrics", metricsHandler(turn))
	if page != nil {
		page.register(mux, turn)
	}
	return mux
}

// metricsHandler does not compress: that costs more than it saves within a cluster, and
// all readers can share an answer.
func metricsHandler(turn turn) http.Handler {
	return &answers{
		handler: promhttp.HandlerFor(legacyregistry.DefaultGatherer, promhttp.HandlerOpts{DisableCompression: true}),
		key:     func(r *http.Request) string { return r.URL.RawQuery + " " + strings.Join(r.Header["Accept"], ",") },
		limit:   metricsInFlight,
		turn:    turn,
	}
}

// checkHandler answers 200 and ok, or 500 and a line for each check that fails.
func checkHandler(checks []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var failed []error
		for _, c := range checks {
			if err := c.Fail(); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
			}
		}
		if err := errors.Join(failed...); err != nil {
			klog.Background().V(2).Info("Health check failed", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// Serve serves on the listener until ctx is done.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ConnState:         newConnections(maxConnections).changed,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: headerPatience,
		ReadTimeout:       requestPatience,
		WriteTimeout:      requestPatience,
	}
	server.SetKeepAlivesEnabled(false) // a connection is for one request: none is idle, and none gets more than its turn
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}
