// Command typed records what Go's text/template answers where data and functions have Go types of every kind.
//
//	cd tests/gotemplate/recorder && go run ./typed ../corpus/typed.json
//
// The corpus file holds {"values": {NAME: VALUE}, "cases": [CASE]}. A VALUE is JSON as encoding/json decodes it into an interface, or
// {"$": TYPE, "v": VALUE} for a value of a Go type (build.go says which), or {"$": "call", "v": NAME} for a function (world.go).
// A CASE is a template with the name of its data:
//
//	{"template": "{{.X}}", "data": "point"}              answered by "output", or by "error" and "stage"
//	{"template": "{{printf ...}}", "each": [NAME...]}    answered by "answers", one for each value
//	{"template": "{{eq ...}}", "pairs": [NAME...]}       answered by "answers", one for each pair of values, as a list of two
//
// and may have "left", "right", "missingkey", "funcs" (a set of world.go, added to the set "typed") and "name" (of the template).
// To add a case, add its question and run the command; it answers all cases anew.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"text/template"
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
	Output     *string  `json:"output,omitempty"`
	Error      string   `json:"error,omitempty"`
	Stage      string   `json:"stage,omitempty"`
	Answers    []answer `json:"answers,omitempty"`
}

// An answer is the output as a string, or {"error": TEXT}.
type answer struct{ output, err string }

func (a answer) MarshalJSON() ([]byte, error) {
	if a.err != "" {
		return encode(map[string]string{"error": a.err}, "")
	}
	return encode(a.output, "")
}

func (a *answer) UnmarshalJSON([]byte) error { return nil } // it is answered anew

type file struct {
	RecordedWith string                     `json:"recorded_with"`
	Values       map[string]json.RawMessage `json:"values"`
	Cases        []question                 `json:"cases"`
}

func main() {
	raw, err := os.ReadFile(os.Args[1])
	check(err)
	var f file
	check(json.Unmarshal(raw, &f))
	f.RecordedWith = runtime.Version() + " text/template"
	for i := range f.Cases {
		f.Cases[i].answer(f.Values)
	}
	text, err := encode(f, " ")
	check(err)
	check(os.WriteFile(os.Args[1], append(text, '\n'), 0o644))
}

func (q *question) answer(values map[string]json.RawMessage) {
	q.Output, q.Error, q.Stage, q.Answers = nil, "", "", nil
	t, err := q.parse()
	if err != nil {
		q.Error, q.Stage = err.Error(), "parse"
		return
	}
	value := func(name string) any { return build(values[name]) }
	switch {
	case q.Each != nil:
		for _, name := range q.Each {
			q.Answers = append(q.Answers, execute(t, value(name)))
		}
	case q.Pairs != nil:
		for _, first := range q.Pairs {
			for _, second := range q.Pairs {
				q.Answers = append(q.Answers, execute(t, []any{value(first), value(second)}))
			}
		}
	default:
		result := execute(t, value(q.Data))
		if result.err != "" {
			q.Error, q.Stage = result.err, "execute"
			return
		}
		q.Output = &result.output
	}
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

func execute(t *template.Template, data any) answer {
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return answer{err: err.Error()}
	}
	return answer{output: out.String()}
}

func encode(value any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
