package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNotes(t *testing.T) {
	// names makes a map; sn/ is our prefix.
	names := func(list string) map[string]string {
		m := map[string]string{}
		for name := range strings.FieldsSeq(list) {
			m[strings.Replace(name, "sn/", "schedule-night.svc/", 1)] = "true"
		}
		return m
	}
	var many strings.Builder
	for i := range 50 {
		fmt.Fprintf(&many, "sn/unheard-of-%02d ", i)
	}
	for _, tc := range []struct {
		name                                      string
		annotations, labels, template, templLabel string
		want                                      []string
	}{
		{name: "nothing"},
		{name: "all is well", annotations: "sn/on sn/expected app.kubernetes.io/name", labels: "app", template: "prometheus.io/scrape"},
		{name: "in the template", template: "sn/on sn/expected", want: []string{
			"schedule-night.svc/expected and schedule-night.svc/on in the Pod template have no effect; they belong into the Deployment's own metadata.annotations"}},
		{name: "labels", labels: "sn/on app", want: []string{
			"schedule-night.svc/on among the labels has no effect; it belongs into metadata.annotations"}},
		{name: "labels of the template", templLabel: "sn/on sn/window sn/expected", want: []string{
			"schedule-night.svc/expected, schedule-night.svc/on and schedule-night.svc/window among the labels of the Pod template have no effect; they belong into the Deployment's own metadata.annotations"}},
		{name: "there and where they belong, too", annotations: "sn/on sn/expected", labels: "sn/on", template: "sn/on sn/expected"},
		{name: "one of them there alone", annotations: "sn/on sn/expected", template: "sn/on sn/expected sn/window", want: []string{
			"schedule-night.svc/window in the Pod template has no effect; it belongs into the Deployment's own metadata.annotations"}},
		{name: "without on", annotations: "sn/expected sn/window", want: []string{
			`schedule-night.svc/expected and schedule-night.svc/window have no effect without schedule-night.svc/on: "true"`}},
		{name: "without on, which is elsewhere", annotations: "sn/expected", template: "sn/on", want: []string{
			"schedule-night.svc/on in the Pod template has no effect; it belongs into the Deployment's own metadata.annotations",
			`schedule-night.svc/expected has no effect without schedule-night.svc/on: "true"`}},
		{name: "misspelt", annotations: "sn/on sn/expected sn/timeZone schedulenight.svc/daytime", want: []string{
			"schedule-night.svc/timeZone has no effect; schedule-night.svc/timezone may be meant",
			"schedulenight.svc/daytime has no effect; schedule-night.svc/daytime may be meant"}},
		{name: "misspelt on", annotations: "sn/On sn/expected", want: []string{
			"schedule-night.svc/On has no effect; schedule-night.svc/on may be meant",
			`schedule-night.svc/expected has no effect without schedule-night.svc/on: "true"`}},
		{name: "unheard of", annotations: "sn/on sn/enabled", want: []string{
			"schedule-night.svc/enabled has no effect; there are on, expected, window, timezone, night-replicas, except, awake-until, asleep-until, daytime, wake-delay"}},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: names(tc.annotations), Labels: names(tc.labels)}}
		d.Spec.Template.Annotations, d.Spec.Template.Labels = names(tc.template), names(tc.templLabel)
		if got := Notes(d); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}

	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: names(many.String() + "sn/" + strings.Repeat("x", 300) + " sn/on")}}
	got := Notes(d)
	if len(got) != 11 || got[10] != "41 more such names" {
		t.Errorf("%d notes, the last %q", len(got), got[len(got)-1])
	}
	d.Annotations = names("sn/" + strings.Repeat("x", 300))
	if got := Notes(d); len(got) != 1 || len(got[0]) > 300 {
		t.Errorf("got %q", got)
	}
}

func TestNotesOnOthers(t *testing.T) {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "StatefulSet", APIVersion: "apps/v1"}}
	if got := NoteOnOther(object); got != "" {
		t.Errorf("got %q", got)
	}
	object.Annotations = map[string]string{"schedule-night.svc/on": "true", "schedule-night.svc/expected": "1"}
	if got, want := NoteOnOther(object), "schedule-night.svc/expected and schedule-night.svc/on have no effect on a StatefulSet of apps/v1; only Deployments of apps/v1 are scaled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
