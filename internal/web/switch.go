package web

import (
	"net/http"
	"sync/atomic"
)

// Switch is a handler that can be replaced while it is served: what is asked before all
// parts are there needs an answer, too.
type Switch struct{ handler atomic.Pointer[http.Handler] }

// NewSwitch starts with the given handler.
func NewSwitch(handler http.Handler) *Switch {
	s := &Switch{}
	s.To(handler)
	return s
}

// To hands all that comes from now on to the handler.
func (s *Switch) To(handler http.Handler) { s.handler.Store(&handler) }

// ServeHTTP implements http.Handler.
func (s *Switch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.handler.Load()).ServeHTTP(w, r)
}
