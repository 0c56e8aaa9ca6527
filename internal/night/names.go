package night

import (
	"fmt"
	"slices"
	"strings"
)

// Misspelling is the name of an annotation that has no effect, though somebody meant it to.
type Misspelling struct {
	Name    string
	Nearest string // the name that was meant; "" if that cannot be told
}

// String says that it has no effect, and what would be right.
func (m Misspelling) String() string {
	name, right := m.Name, m.Nearest+" may be meant"
	if len(name) > MaxQuote {
		name = Quote(name)
	}
	if m.Nearest == "" {
		right = "there are " + strings.ReplaceAll(strings.Join(AnnotationNames[:], ", "), Prefix, "")
	}
	return fmt.Sprintf("%s has no effect; %s", name, right)
}

// Unknown are the names with our prefix that are none of ours. They are sorted. Where all
// are known, as nearly everywhere, it costs nearly nothing.
func Unknown(annotations map[string]string) (names []string) {
	for name := range annotations {
		if strings.HasPrefix(name, Prefix) && !slices.Contains(AnnotationNames[:], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Misspelt are the names with our prefix that are none of ours, and those with nearly our
// prefix that would be nearly one of ours. They are sorted.
func Misspelt(annotations map[string]string) (list []Misspelling) {
	for _, name := range likely(annotations) {
		if nearest, meant := nearestName(name); meant && nearest != name {
			list = append(list, Misspelling{name, nearest})
		}
	}
	return list
}

// Meant are the names, of annotations or labels, by which somebody means us: ours, and what
// Misspelt finds. They are sorted.
func Meant(names map[string]string) []string {
	return slices.DeleteFunc(likely(names), func(name string) bool {
		_, meant := nearestName(name)
		return !meant
	})
}

// likely are the names that are worth a closer look, sorted; no more than anybody writes.
func likely(names map[string]string) (list []string) {
	for name := range names {
		if at := strings.IndexByte(name, '/'); at >= 0 && max(at+1-len(Prefix), len(Prefix)-at-1) <= maxPrefixErrors {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list[:min(len(list), maxNames)]
}

// Bounds on how far a name may be from the one that was meant, so that even an object full
// of names costs little.
const (
	maxName         = 24  // letters; no prefix or name of ours has more
	maxNames        = 100 // of one object
	maxPrefixErrors = 4   // schedule-night/ is one of these
	maxNameErrors   = 2
)

// nearestName is the name of ours to which a name is nearest, "" if none is near; meant
// tells whether it is meant for one of ours.
func nearestName(name string) (nearest string, meant bool) {
	at := strings.IndexByte(name, '/')
	if at < 0 {
		return "", false
	}
	prefix, rest := name[:at+1], name[at+1:]
	ours := prefix == Prefix
	if !ours && distance(prefix, Prefix, maxPrefixErrors) > maxPrefixErrors {
		return "", false
	}
	least := maxNameErrors + 1
	squashed := ""
	if len(rest) <= maxName {
		squashed = squash.Replace(strings.ToLower(rest))
	}
	for i, known := range AnnotationNames {
		if name == known {
			return known, true
		}
		most := min(maxNameErrors, len(squashedNames[i])/4)
		if n := distance(squashed, squashedNames[i], most); n <= most && n < least {
			nearest, least = known, n
		}
	}
	return nearest, ours || nearest != ""
}

// squash takes away the marks between words, about which people have their own ideas.
var squash = strings.NewReplacer("-", "", "_", "", ".", "")

// squashedNames are those of AnnotationNames without the prefix.
var squashedNames = func() (list [len(AnnotationNames)]string) {
	for i, name := range AnnotationNames {
		list[i] = squash.Replace(strings.TrimPrefix(name, Prefix))
	}
	return list
}()

// distance is how many letters must be put in, taken out, changed or swapped with the next
// to make b of a; it is not looked at how many above most. B has maxName letters at most.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var before, last, row [maxName + 1]int
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last = last, row
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
