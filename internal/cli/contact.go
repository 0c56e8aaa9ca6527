package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// tellAgain is how often the log tells that we still wait.
const tellAgain = time.Minute

// Contact is about a process that needs the API server at its start, and waits for it.
type Contact struct {
	trouble atomic.Pointer[error]
}

// Waiting tells why we wait; nil if we do not.
func (c *Contact) Waiting() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Await asks until there is an answer, or an error that will not pass by itself, or until
// ctx is done.
func (c *Contact) Await(ctx context.Context, ask func(context.Context) error) error {
	defer c.trouble.Store(nil)
	logger := klog.FromContext(ctx)
	pause := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 10 * time.Second}
	var told time.Time
	for {
		err := ask(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err() //nolint:wrapcheck // the caller's own
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the API server does not accept our credentials: %w", err)
		case !passes(err):
			return err
		}
		err = fmt.Errorf("waiting for the API server: %w", err)
		c.trouble.Store(&err)
		if time.Since(told) >= tellAgain {
			told = time.Now()
			logger.Info("Waiting for the API server", "err", errors.Unwrap(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		case <-time.After(pause.Step()):
		}
	}
}

// passes tells a trouble that may pass while we wait from one that somebody must mend.
func passes(err error) bool {
	var (
		status      apierrors.APIStatus
		unverified  *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		certificate x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &status):
		code := int(status.Status().Code)
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
	case errors.As(err, &unverified), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &certificate):
		return false
	}
	return !errors.Is(err, http.ErrSchemeMismatch)
}
