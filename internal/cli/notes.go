package cli

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"schedule-night/internal/night"
)

// maxMisspelt is of how many names of one object it is told that they are misspelt.
const maxMisspelt = 10

// Notes says what on a Deployment looks like an annotation of ours and has no effect, and
// what would be right.
func Notes(d *appsv1.Deployment) (notes []string) {
	for _, place := range []struct {
		names       map[string]string
		where, into string
	}{
		{d.Labels, "among the labels", "metadata.annotations"},
		{d.Spec.Template.Annotations, "in the Pod template", "the Deployment's own metadata.annotations"},
		{d.Spec.Template.Labels, "among the labels of the Pod template", "the Deployment's own metadata.annotations"},
	} {
		names := slices.DeleteFunc(night.Meant(place.names), func(name string) bool {
			_, ok := d.Annotations[name]
			return ok
		})
		if len(names) > 0 {
			have, belong := "have", "they belong"
			if len(names) == 1 {
				have, belong = "has", "it belongs"
			}
			notes = append(notes, fmt.Sprintf("%s %s %s no effect; %s into %s", enumerate(names), place.where, have, belong, place.into))
		}
	}

	misspelt := night.Misspelt(d.Annotations)
	for i, m := range misspelt {
		if i == maxMisspelt {
			notes = append(notes, fmt.Sprintf("%d more such names", len(misspelt)-i))
			break
		}
		notes = append(notes, m.String())
	}

	if _, on := d.Annotations[night.AnnotationOn]; on {
		return notes
	}
	var known []string
	for _, name := range night.AnnotationNames {
		if _, ok := d.Annotations[name]; ok {
			known = append(known, name)
		}
	}
	if len(known) > 0 {
		have := "have"
		if len(known) == 1 {
			have = "has"
		}
		notes = append(notes, fmt.Sprintf(`%s %s no effect without %s: "true"`, enumerate(known), have, night.AnnotationOn))
	}
	return notes
}

// NoteOnOther is the same for an object of a kind that is not scaled; "" if there is
// nothing to say.
func NoteOnOther(object *metav1.PartialObjectMetadata) string {
	names := night.Meant(object.Annotations)
	if len(names) == 0 {
		return ""
	}
	have := "have"
	if len(names) == 1 {
		have = "has"
	}
	return fmt.Sprintf("%s %s no effect on a %s of %s; only Deployments of apps/v1 are scaled", enumerate(names), have, object.Kind, object.APIVersion)
}

// Title names an object of any kind.
func Title(object *metav1.PartialObjectMetadata) string {
	if object.Namespace == "" {
		return object.Kind + " " + Name(object)
	}
	return object.Kind + " " + object.Namespace + "/" + Name(object)
}

// enumerate joins names as a sentence does; of many, the first.
func enumerate(names []string) string {
	list := make([]string, 0, maxMisspelt)
	for _, name := range names[:min(len(names), maxMisspelt)] {
		list = append(list, shorten(name))
	}
	last := len(list) - 1
	switch {
	case len(names) > len(list):
		return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), len(names)-len(list))
	case last == 0:
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

func shorten(name string) string {
	if len(name) > night.MaxQuote {
		return night.Quote(name)
	}
	return name
}
