package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// AddFilesFlag adds the flag that names manifests.
func AddFilesFlag(fs *pflag.FlagSet, files *[]string) {
	fs.StringArrayVarP(files, "filename", "f", nil, "`FILE` with manifests, a directory of such, or - for stdin, instead of the cluster; may be repeated")
}

// ManifestReader reads manifests and hands out the objects of the kinds that are
// asked for; what cannot be read is reported, and the rest is gone on with.
type ManifestReader struct {
	// kinds has what to do with an object by "<apiVersion> <kind>"; where says where
	// it was found, for errors.
	kinds  map[string]func(document []byte, where string)
	others func(object *metav1.PartialObjectMetadata, where string) // nil: they are passed over
	report func(error)
}

// NewManifestReader makes a reader that tells report what cannot be read.
func NewManifestReader(report func(error)) *ManifestReader {
	return &ManifestReader{kinds: map[string]func([]byte, string){}, report: report}
}

// On has the reader add the objects of a kind, "<apiVersion> <kind>". Where, which ends in
// ": ", says where one was found; the error of add is reported.
func On[T any](r *ManifestReader, kind string, add func(object *T, where string) error) {
	r.kinds[kind] = func(document []byte, where string) {
		object := new(T)
		err := unmarshalObject(document, object, where)
		if err == nil {
			err = add(object, where+": ")
		}
		if err != nil {
			r.report(err)
		}
	}
}

// OnOthers has add see what can be read of the objects of all other kinds. Where is as in On.
func (r *ManifestReader) OnOthers(add func(object *metav1.PartialObjectMetadata, where string)) {
	r.others = add
}

// AddFiles reads files, the manifests in directories, and stdin for "-".
func (r *ManifestReader) AddFiles(names []string, stdin io.Reader) {
	for _, name := range names {
		if name == "-" {
			text, err := io.ReadAll(stdin)
			r.addFile("stdin", text, err)
			continue
		}
		files, err := manifests(name)
		if err != nil {
			r.report(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			r.addFile(file, text, err)
		}
	}
}

// manifests is the file of that name, or those that a directory of that name holds.
func manifests(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil { // no directory; what else is wrong shows when it is read
		return []string{name}, nil
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json files in this directory", name)
	}
	return files, nil
}

// preamble is what stands before the first "---" without being a document.
var preamble = regexp.MustCompile(`\A(?:[ \t]*(?:#.*)?\r?\n)+---`)

// decode makes UTF-8 of a YAML stream, which may be in UTF-16: PowerShell's > writes that.
// Without a byte order mark its first character tells, which is one of ASCII.
func decode(text []byte) ([]byte, error) {
	var order binary.ByteOrder
	switch utf8Mark := []byte("\xef\xbb\xbf"); {
	case bytes.HasPrefix(text, utf8Mark):
		return text[len(utf8Mark):], nil
	case len(text) < 2:
		return text, nil
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		order, text = binary.LittleEndian, text[2:]
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order, text = binary.BigEndian, text[2:]
	case text[0] != 0 && text[1] == 0:
		order = binary.LittleEndian
	case text[0] == 0 && text[1] != 0:
		order = binary.BigEndian
	default:
		return text, nil
	}
	if len(text)%2 != 0 {
		return nil, errors.New("it ends within a character of UTF-16")
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// addFile reads one file's documents, which are counted from 1.
func (r *ManifestReader) addFile(name string, text []byte, err error) {
	if err == nil {
		text, err = decode(text)
	}
	if err != nil {
		r.report(fmt.Errorf("reading %s: %w", name, err))
		return
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(preamble.ReplaceAll(text, []byte("---"))), 4096)
	for n := 1; ; n++ {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		where := fmt.Sprintf("%s, document %d", name, n)
		if err == nil {
			r.addDocument(document.Raw, where, 0)
			continue
		}
		r.report(fmt.Errorf("%s: %w", where, err))
		if !errors.As(err, new(yaml.YAMLSyntaxError)) { // JSON, which has no "---" to go on from
			return
		}
	}
}

// maxLists is how deep a list may stand in lists. Each is read anew with all that is in it.
const maxLists = 10

// addDocument reads a document, which may be a list, and stands in so many.
func (r *ManifestReader) addDocument(document []byte, where string, lists int) {
	if len(document) == 0 { // nothing but comments
		return
	}
	var meta metav1.TypeMeta
	if err := utiljson.Unmarshal(document, &meta); err != nil {
		r.report(fmt.Errorf("%s: %w", where, err))
		return
	}
	kind := meta.APIVersion + " " + meta.Kind
	listed, isList := r.kinds[strings.TrimSuffix(kind, "List")]
	switch add := r.kinds[kind]; {
	case add != nil:
		add(document, where)
	case lists == maxLists && (kind == "v1 List" || isList):
		r.report(fmt.Errorf("%s: a list that stands in %d others", where, lists))
	case kind == "v1 List", isList:
		var list struct {
			Items []runtime.RawExtension `json:"items"`
		}
		if err := utiljson.Unmarshal(document, &list); err != nil {
			r.report(fmt.Errorf("%s: %w", where, err))
		}
		for i, item := range list.Items {
			where := fmt.Sprintf("%s, item %d", where, i+1)
			if isList { // the API server leaves out the kind of the items
				listed(item.Raw, where)
			} else {
				r.addDocument(item.Raw, where, lists+1)
			}
		}
	case meta.APIVersion == "" || meta.Kind == "":
		r.report(fmt.Errorf("%s: apiVersion or kind is missing", where))
	case r.others != nil:
		var object metav1.PartialObjectMetadata
		if err := utiljson.Unmarshal(document, &object); err == nil { // what is wrong with it is not ours to say
			r.others(&object, where+": ")
		}
	}
}

// Name is what to call an object. One of a manifest may be named only when it is created.
func Name(object metav1.Object) string {
	if object.GetName() == "" && object.GetGenerateName() != "" {
		return object.GetGenerateName() + "…"
	}
	return object.GetName()
}

// unmarshalObject reads a document into an object.
func unmarshalObject(document []byte, object any, where string) error {
	err := utiljson.Unmarshal(document, object)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "annotations of type string"):
		return fmt.Errorf(`%s: put annotation values in quotes, e.g. "true" or "3": %w`, where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}
