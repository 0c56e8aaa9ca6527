package cli

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAuthProviders: what a kubeconfig of kubectl's names to log in with works here, too.
func TestAuthProviders(t *testing.T) {
	var got string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`)
	}))
	defer server.Close()
	idToken := func(expires int) string { // only its time is looked at
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"exp":%d}`, expires)) + ".x"
	}
	oidc := func(token string) string { // the provider keeps one session for each client-id
		return `{"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "` + token + `", "id-token": "` + token + `"}}}`
	}
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\necho '"+`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-the-helper"}}`+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, user, token, err string }{
		{"oidc", oidc(idToken(4_000_000_000)), idToken(4_000_000_000), ""},
		{"oidc, over long ago", oidc(idToken(1_000_000_000)), "", "No valid id-token, and cannot refresh without refresh-token"},
		{"exec", `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "` + helper + `"}}`, "of-the-helper", ""},
		{"gcp", `{"auth-provider": {"name": "gcp"}}`, "", "The gcp auth plugin has been removed"},
		{"azure", `{"auth-provider": {"name": "azure"}}`, "", "The azure auth plugin has been removed"},
	} {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "a", "clusters": [{"name": "c", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
"users": [{"name": "u", "user": %s}], "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}]}`, server.URL, tc.user), 0o600); err != nil {
			t.Fatal(err)
		}
		got = ""
		cluster := &ClusterOptions{Kubeconfig: kubeconfig, QPS: -1}
		client, _, err := (&SelectOptions{}).Connect(cluster)
		if err == nil {
			_, err = client.AppsV1().Deployments("shop").List(t.Context(), metav1.ListOptions{})
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
		if want := "Bearer " + tc.token; tc.token != "" && got != want {
			t.Errorf("%s: sent %q, want %q", tc.name, got, want)
		}
	}
}
