package main

import (
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

func TestClassify(t *testing.T) {
	known, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	license := func(file string) string {
		text, err := assets.ReadLicenseFile("License/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return clean(string(text))
	}
	for name, test := range map[string]struct {
		texts         map[string]string
		licenses, err string
	}{
		"one that goes":        {texts: map[string]string{"LICENSE": license("MIT/pristine.txt")}, licenses: "MIT"},
		"two that go":          {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "third_party/x/COPYING": license("ISC/license.txt")}, licenses: "ISC, MIT"},
		"one that does not go": {texts: map[string]string{"LICENSE": license("AGPL-3.0/license.txt")}, err: "AGPL-3.0 is not among"},
		"a good and a bad one": {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "x/LICENSE": license("GPL-2.0/license.txt")}, err: "GPL-2.0"},
		"one of their own":     {texts: map[string]string{"LICENSE": license("MIT/pristine.txt"), "x/LICENSE.txt": "You may look at this on Sundays."}, err: "no known licence in x/LICENSE.txt"},
		"none":                 {texts: map[string]string{"NOTICE": "By Somebody."}, err: "no licence"},
	} {
		m := &module{path: "example.com/m", texts: test.texts}
		err := m.classify(known)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want one with %q", name, err, test.err)
			}
			continue
		}
		if got := strings.Join(m.licenses, ", "); err != nil || got != test.licenses {
			t.Errorf("%s: %q, error %v, want %q", name, got, err, test.licenses)
		}
	}
}
