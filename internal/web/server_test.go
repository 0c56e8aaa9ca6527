package web

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealthEndpoints(t *testing.T) {
	var ill error
	server := httptest.NewServer(NewHandler([]Check{{"workers", func() error { return ill }}}, []Check{{"informers", func() error { return nil }}}, nil))
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		client := http.Client{Timeout: 5 * time.Second}
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if code, body := get("/livez"); code != 200 || body != "ok\n" {
		t.Errorf("/livez: %d %q", code, body)
	}
	ill = errors.New("all workers are busy")
	if code, body := get("/livez"); code != 500 || !strings.Contains(body, "workers: all workers are busy") {
		t.Errorf("/livez: %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "leader_election_master_status") && !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: %d, %d bytes", code, len(body))
	}
	if code, _ := get("/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
}
