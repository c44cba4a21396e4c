// Command typed records what Go's text/template answers where data and functions have Go types of every kind.
//
//	cd tests/gotemplate/recorder && go run ./typed ../corpus/typed.json
//
// The corpus file holds {"values": {NAME: VALUE}, "cases": [CASE]}. A VALUE is JSON as encoding/json decodes it into an interface, or
// {"$": TYPE, "v": VALUE} for a value of a Go type (build.go says which), or {"$": "call", "v": NAME} for a function (world.go).
// A CASE is a template with the name of its data:
//
//	{"template": "{{.X}}", "data": "point"}              answered by "output", or by "error" and "stage"
//	{"template": "{{len .}}", "each": [NAME...]}         answered by "answers": the values that give an output or an error
//	{"template": "{{eq ...}}", "pairs": [NAME...]}       the same for lists of two values, named "NAME NAME"
//
// and may have "left", "right", "missingkey", "funcs" (a set of world.go, added to the set "typed") and "name" (of the template).
// To add a case, add its question and run the command; it answers all cases anew.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"text/template"
	"unicode/utf8"
)

type question struct {
	Template   string   `json:"template"`
	Name       string   `json:"name,omitempty"`
	Data       string   `json:"data,omitempty"`
	Each       []string `json:"each,omitempty"`
	Pairs      []string `json:"pairs,omitempty"`
	Funcs      string   `json:"funcs,omitempty"`
	Left       string   `json:"left,omitempty"`
	Right      string   `json:"right,omitempty"`
	MissingKey string   `json:"missingkey,omitempty"`
	Output     *text    `json:"output,omitempty"`
	Error      text     `json:"error,omitempty"`
	Stage      string   `json:"stage,omitempty"`
	Answers    []answer `json:"answers,omitempty"`
}

// text is what Go prints; bytes that are no UTF-8 become lone surrogates, as Python's surrogateescape has them.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for rest := string(t); rest != ""; {
		char, size := utf8.DecodeRuneInString(rest)
		if char == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\udc%02x`, rest[0])
		} else {
			quoted := encode(rest[:size])
			out.Write(quoted[1 : len(quoted)-1])
		}
		rest = rest[size:]
	}
	return []byte(`"` + out.String() + `"`), nil
}

// An answer is an output or an error, and the values that give it.
type answer struct {
	Output *text    `json:"output,omitempty"`
	Error  text     `json:"error,omitempty"`
	For    []string `json:"for"`
}

type file struct {
	Values map[string]json.RawMessage `json:"values"`
	Cases  []question                 `json:"cases"`
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	check(err)
	var f file
	check(json.Unmarshal(raw, &f))
	for i := range f.Cases {
		f.Cases[i].answer(f.Values)
	}
	check(os.WriteFile(os.Args[1], f.lines(), 0o644))
}

// lines is the file as JSON, a value or a case in a line.
func (f *file) lines() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"recorded_with\": %q,\n\"values\": {", runtime.Version()+" text/template")
	separator := ""
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		fmt.Fprintf(&out, "%s\n%s: %s", separator, encode(name), encode(f.Values[name]))
		separator = ","
	}
	out.WriteString("\n},\n\"cases\": [")
	separator = ""
	for _, each := range f.Cases {
		fmt.Fprintf(&out, "%s\n%s", separator, encode(each))
		separator = ","
	}
	out.WriteString("\n]}\n")
	return out.Bytes()
}

func encode(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return bytes.TrimSpace(out.Bytes())
}

func (q *question) answer(values map[string]json.RawMessage) {
	q.Output, q.Error, q.Stage, q.Answers = nil, "", "", nil
	t, err := q.parse()
	if err != nil {
		q.Error, q.Stage = text(err.Error()), "parse"
		return
	}
	for _, name := range q.Each {
		q.add(name, t, build(values[name]))
	}
	for _, first := range q.Pairs {
		for _, second := range q.Pairs {
			q.add(first+" "+second, t, []any{build(values[first]), build(values[second])})
		}
	}
	if q.Each == nil && q.Pairs == nil {
		q.Output, q.Error = execute(t, build(values[q.Data]))
		if q.Error != "" {
			q.Stage = "execute"
		}
	}
}

func (q *question) add(name string, t *template.Template, data any) {
	output, failure := execute(t, data)
	for i := range q.Answers {
		known := &q.Answers[i]
		if known.Error == failure && (failure != "" || *known.Output == *output) {
			known.For = append(known.For, name)
			return
		}
	}
	q.Answers = append(q.Answers, answer{output, failure, []string{name}})
}

func (q *question) parse() (*template.Template, error) {
	name := q.Name
	if name == "" {
		name = "t"
	}
	t := template.New(name).Delims(q.Left, q.Right).Funcs(functions["typed"])
	if q.Funcs != "" {
		t = t.Funcs(functions[q.Funcs])
	}
	if q.MissingKey != "" {
		t = t.Option("missingkey=" + q.MissingKey)
	}
	return t.Parse(q.Template)
}

func execute(t *template.Template, data any) (output *text, failure text) {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, text(err.Error())
	}
	printed := text(out.String())
	return &printed, ""
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
