package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSwitch(t *testing.T) {
	says := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	s := NewSwitch(says(http.StatusServiceUnavailable))
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
		s.To(says(http.StatusOK))
	}
}
