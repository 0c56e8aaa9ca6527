package web

import (
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"
)

// markup is a template in the part of html/template's language that page.html needs:
// {{.Field}}, {{$.Field}}, {{if}}, {{range}}, {{else}} and {{end}}. Every value is
// escaped for text and for attributes in double quotes; it must not stand in a script,
// a style, or a URL that is not made here. A test holds it to html/template's output.
//
// html/template itself calls methods by name, for which the linker would keep every
// method of every API type: a program of 60 MB instead of 32.
type markup struct{ root *parse.ListNode }

func mustParseMarkup(name, text string) markup {
	trees, err := parse.Parse(name, text, "", "")
	if err != nil {
		panic(err) // a constant
	}
	return markup{trees[name].Root}
}

// execute renders the template with a struct for its dot.
func (m markup) execute(data any) (string, error) {
	e := execution{data: reflect.ValueOf(data)}
	e.list(m.root, e.data)
	return e.out.String(), e.err
}

// execution goes through a template; err is the first thing that it cannot do.
type execution struct {
	out  strings.Builder
	data reflect.Value
	err  error
}

func (e *execution) list(list *parse.ListNode, dot reflect.Value) {
	if list == nil { // no {{else}}
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			e.out.Write(n.Text)
		case *parse.ActionNode:
			_, _ = escaper.WriteString(&e.out, fmt.Sprint(e.value(n.Pipe, dot))) // a Builder has no errors
		case *parse.IfNode:
			if truth, _ := template.IsTrue(e.value(n.Pipe, dot)); truth {
				e.list(n.List, dot)
			} else {
				e.list(n.ElseList, dot)
			}
		case *parse.RangeNode:
			items := reflect.ValueOf(e.value(n.Pipe, dot))
			if items.Kind() != reflect.Slice || items.Len() == 0 {
				e.list(n.ElseList, dot)
				continue
			}
			for i := range items.Len() {
				e.list(n.List, items.Index(i))
			}
		default:
			e.fail(node)
		}
	}
}

// value is that of a pipe, which must be a field of dot or of $.
func (e *execution) value(pipe *parse.PipeNode, dot reflect.Value) any {
	var fields []string
	if len(pipe.Cmds) == 1 && len(pipe.Cmds[0].Args) == 1 && len(pipe.Decl) == 0 {
		switch n := pipe.Cmds[0].Args[0].(type) {
		case *parse.FieldNode:
			fields = n.Ident
		case *parse.VariableNode: // $ is the only one
			dot, fields = e.data, n.Ident[1:]
		}
	}
	for _, name := range fields {
		if dot.Kind() != reflect.Struct {
			dot = reflect.Value{}
			break
		}
		dot = dot.FieldByName(name)
	}
	if len(fields) == 0 || !dot.IsValid() || !dot.CanInterface() {
		e.fail(pipe)
		return ""
	}
	return dot.Interface()
}

func (e *execution) fail(node parse.Node) {
	if e.err == nil {
		e.err = fmt.Errorf("template: cannot do {{%s}}", node)
	}
}

// escaper replaces what html/template does.
var escaper = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")
