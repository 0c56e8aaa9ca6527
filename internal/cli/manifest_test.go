package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inUTF16 is a text as PowerShell writes it, in either order of bytes.
func inUTF16(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// TestManifestEncodings: YAML may be in UTF-8 or UTF-16, with a byte order mark or without.
func TestManifestEncodings(t *testing.T) {
	const mark, namespace = "\ufeff", "# a licence\r\n---\r\napiVersion: v1\r\nkind: Namespace\r\nmetadata: {name: shop, annotations: {a: \"ä€😀\"}}\r\n"
	for name, text := range map[string]string{
		"UTF-8":                        namespace,
		"UTF-8, mark":                  mark + namespace,
		"UTF-16, little end first":     inUTF16(mark+namespace, binary.LittleEndian),
		"UTF-16, big end first":        inUTF16(mark+namespace, binary.BigEndian),
		"UTF-16, little end, no mark":  inUTF16(namespace, binary.LittleEndian),
		"UTF-16, big end, no mark":     inUTF16(namespace, binary.BigEndian),
		"JSON, UTF-16 and two of them": inUTF16(mark+`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":{"a":"ä€😀"}}} {"apiVersion":"v1","kind":"Secret"}`, binary.LittleEndian),
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var found []string
		r := NewManifestReader(func(err error) { t.Errorf("%s: %v", name, err) })
		On(r, "v1 Namespace", func(ns *corev1.Namespace, _ string) error {
			found = append(found, ns.Name+" "+ns.Annotations["a"])
			return nil
		})
		r.AddFiles([]string{file, "-"}, strings.NewReader(text))
		if got := strings.Join(found, ", "); got != "shop ä€😀, shop ä€😀" {
			t.Errorf("%s: found %q", name, got)
		}
	}

	for _, text := range []string{"\xff\xfea\x00b", "\x00a\x00b\x00"} {
		var errs []string
		r := NewManifestReader(func(err error) { errs = append(errs, err.Error()) })
		r.AddFiles([]string{"-"}, strings.NewReader(text))
		if want := "reading stdin: it ends within a character of UTF-16"; len(errs) != 1 || errs[0] != want {
			t.Errorf("%q: %q", text, errs)
		}
	}
	for _, text := range []string{"", "#", "\xff\xfe", "\xfe\xff", "\xef\xbb\xbf", mark} {
		r := NewManifestReader(func(err error) { t.Errorf("%q: %v", text, err) })
		r.AddFiles([]string{"-"}, strings.NewReader(text))
	}
}

// TestManifestLists: lists in lists are read as kubectl reads them, but a file cannot make of
// them what takes a pipeline's memory.
func TestManifestLists(t *testing.T) {
	for lists, want := range map[int]int{1: 1, 10: 1, 11: 0, 3000: 0} {
		found, errs := 0, 0
		r := NewManifestReader(func(error) { errs++ })
		On(r, "v1 Namespace", func(*corev1.Namespace, string) error { found++; return nil })
		text := strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, lists) + `{"apiVersion":"v1","kind":"Namespace"}` + strings.Repeat("]}", lists)
		r.AddFiles([]string{"-"}, strings.NewReader(text))
		if found != want || errs != 1-want {
			t.Errorf("%d lists: %d found, %d errors", lists, found, errs)
		}
	}
}

func TestName(t *testing.T) {
	for want, meta := range map[string]metav1.ObjectMeta{
		"web":   {Name: "web", GenerateName: "job-"},
		"job-…": {GenerateName: "job-"},
		"":      {},
	} {
		if got := Name(&meta); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
