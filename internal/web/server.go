// Package web serves what operators, their tools and a browser ask for over HTTP.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
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
	mux.Handle("GET /livez", checkHandler(livez))
	mux.Handle("GET /readyz", checkHandler(readyz))
	mux.Handle("GET /metrics", legacyregistry.Handler())
	if page != nil {
		page.register(mux)
	}
	return mux
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
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}
