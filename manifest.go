package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/pager"
)

// eachListed lists page by page, and calls f with each item. What says what is listed.
func eachListed[L, T runtime.Object](ctx context.Context, what string, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, f func(T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, options, func(item runtime.Object) error {
		f(item.(T))
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// manifestReader reads manifests and hands out the objects of the kinds that are
// asked for; what cannot be read is reported, and the rest is gone on with.
type manifestReader struct {
	// kinds has what to do with an object by "<apiVersion> <kind>"; where says where
	// it was found, for errors.
	kinds  map[string]func(document []byte, where string)
	report func(error)
}

// addFiles reads files, the manifests in directories, and stdin for "-".
func (r *manifestReader) addFiles(names []string, stdin io.Reader) {
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

// addFile reads one file's documents, which are counted from 1.
func (r *manifestReader) addFile(name string, text []byte, err error) {
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
			r.addDocument(document.Raw, where)
			continue
		}
		r.report(fmt.Errorf("%s: %w", where, err))
		if !errors.As(err, new(yaml.YAMLSyntaxError)) { // JSON, which has no "---" to go on from
			return
		}
	}
}

// addDocument reads a document, which may be a list.
func (r *manifestReader) addDocument(document []byte, where string) {
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
				r.addDocument(item.Raw, where)
			}
		}
	case meta.APIVersion == "" || meta.Kind == "":
		r.report(fmt.Errorf("%s: apiVersion or kind is missing", where))
	}
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
