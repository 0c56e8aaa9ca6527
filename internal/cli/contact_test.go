package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestContactWaits: what passes is waited for, at growing intervals; whoever asks is told.
func TestContactWaits(t *testing.T) {
	refused := &url.Error{Op: "Post", URL: "https://api", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	synctest.Test(t, func(t *testing.T) {
		var c Contact
		begun := time.Now()
		var asked []time.Duration
		err := c.Await(t.Context(), func(context.Context) error {
			if len(asked) > 0 && (c.Waiting() == nil || !strings.Contains(c.Waiting().Error(), "waiting for the API server: ") || !errors.Is(c.Waiting(), syscall.ECONNREFUSED)) {
				t.Errorf("meanwhile: %v", c.Waiting())
			}
			asked = append(asked, time.Since(begun))
			if time.Since(begun) < 5*time.Minute {
				return fmt.Errorf("cannot reach the API server: %w", refused)
			}
			return nil
		})
		if err != nil || c.Waiting() != nil {
			t.Errorf("in the end: %v, %v", err, c.Waiting())
		}
		if len(asked) < 25 || len(asked) > 60 {
			t.Errorf("asked %d times in five minutes", len(asked))
		}
		for i := range asked[1:] {
			if pause := asked[i+1] - asked[i]; pause < 100*time.Millisecond || pause > 15*time.Second || i < 3 && pause > 2*time.Second {
				t.Errorf("pause %d: %v", i, pause)
			}
		}
	})
}

// TestContactStops: who is told to stop does so at once, also amid a request.
func TestContactStops(t *testing.T) {
	for name, ask := range map[string]func(context.Context) error{
		"between two requests": func(context.Context) error { return io.EOF },
		"amid a request":       func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			time.AfterFunc(time.Minute+time.Millisecond, cancel)
			var c Contact
			if err := c.Await(ctx, ask); !errors.Is(err, context.Canceled) || time.Since(begun) > time.Minute+time.Millisecond {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
		})
	}
}

// TestContactFails: what will not pass is an error at once, in plain words.
func TestContactFails(t *testing.T) {
	status := func(code int, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: reason, Message: "because"}}
	}
	group := schema.GroupResource{Resource: "things"}
	for _, tc := range []struct {
		name   string
		err    error
		passes bool
		words  string
	}{
		{"no such host, yet", &net.DNSError{Err: "no such host", IsNotFound: true}, true, ""},
		{"cut off", io.ErrUnexpectedEOF, true, ""},
		{"no answer", context.DeadlineExceeded, true, ""},
		{"starting", status(http.StatusInternalServerError, metav1.StatusReasonInternalError), true, ""},
		{"not ready", status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), true, ""},
		{"a proxy's", status(http.StatusBadGateway, metav1.StatusReasonUnknown), true, ""},
		{"too many", apierrors.NewTooManyRequests("later", 1), true, ""},
		{"a timeout of its own", apierrors.NewTimeoutError("slow", 1), true, ""},
		{"unauthorized", fmt.Errorf("asking: %w", apierrors.NewUnauthorized("Unauthorized")), false, "the API server does not accept our credentials"},
		{"forbidden", apierrors.NewForbidden(group, "x", errors.New("no")), false, "forbidden"},
		{"a bad request", apierrors.NewBadRequest("no"), false, "no"},
		{"a certificate that nobody vouches for", &url.Error{Op: "Post", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, false, "unknown authority"},
		{"another host's certificate", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "api"}, false, "certificate"},
		{"no TLS", &url.Error{Op: "Post", Err: http.ErrSchemeMismatch}, false, "HTTP response to HTTPS client"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			var c Contact
			err := c.Await(ctx, func(context.Context) error { return tc.err })
			if tc.passes {
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) < time.Minute {
					t.Errorf("%s: %v after %v", tc.name, err, time.Since(begun))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.words) || time.Since(begun) > 0 || c.Waiting() != nil {
				t.Errorf("%s: %v after %v, %v", tc.name, err, time.Since(begun), c.Waiting())
			}
		})
	}
}

// TestContactWithServers: the client's own errors, from servers that are wrong in some way.
func TestContactWithServers(t *testing.T) {
	answer := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	secure, plain := httptest.NewTLSServer(answer(http.StatusUnauthorized)), httptest.NewServer(answer(http.StatusServiceUnavailable))
	defer secure.Close()
	defer plain.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tc := range []struct {
		name   string
		config rest.Config
		want   string // "" waits
	}{
		{"unauthorized", rest.Config{Host: secure.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "does not accept our credentials"},
		{"an unknown authority", rest.Config{Host: secure.URL}, "certificate"},
		{"TLS to a server without", rest.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, "HTTP response to HTTPS client"},
		{"not ready", rest.Config{Host: plain.URL}, ""},
		{"nobody", rest.Config{Host: gone.URL}, ""},
		{"no such host", rest.Config{Host: "https://api.invalid"}, ""},
	} {
		client, err := kubernetes.NewForConfig(&tc.config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var c Contact
		err = c.Await(ctx, func(ctx context.Context) error {
			_, err := Identity(ctx, client)
			return err
		})
		cancel()
		switch {
		case tc.want == "" && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%s: not waited for: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
