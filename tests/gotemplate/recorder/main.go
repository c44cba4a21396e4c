// Command recorder writes what Go's text/template and sprig answer to the templates of a corpus file: output, or error and stage.
//
//	cd tests/gotemplate/recorder && go mod tidy && for f in ../corpus/*.json; do go run . "$f"; done
//
// Each file holds {"data": ..., "cases": [{"template": ..., "left": ..., "right": ..., "missingkey": ...}]}; the answers are put beside
// the templates. Data is decoded from JSON, so its numbers are float64. The file signatures.json is written anew as well.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

type recorded struct {
	Template   string  `json:"template"`
	Left       string  `json:"left,omitempty"`
	Right      string  `json:"right,omitempty"`
	MissingKey string  `json:"missingkey,omitempty"`
	Output     *string `json:"output,omitempty"`
	Error      string  `json:"error,omitempty"`
	Stage      string  `json:"stage,omitempty"`
}

type file struct {
	RecordedWith string          `json:"recorded_with"`
	Data         json.RawMessage `json:"data"`
	Cases        []recorded      `json:"cases"`
}

func answer(c *recorded, raw json.RawMessage) {
	c.Output, c.Error, c.Stage = nil, "", ""
	var data any
	if err := json.Unmarshal(raw, &data); err != nil {
		fail(err)
	}
	t := template.New("t").Delims(c.Left, c.Right).Funcs(sprig.TxtFuncMap())
	if c.MissingKey != "" {
		t = t.Option("missingkey=" + c.MissingKey)
	}
	t, err := t.Parse(c.Template)
	if err != nil {
		c.Error, c.Stage = err.Error(), "parse"
		return
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		c.Error, c.Stage = err.Error(), "execute"
		return
	}
	text := out.String()
	c.Output = &text
}

func write(path string, value any) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(value); err != nil {
		fail(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	path := os.Args[1]
	signatures := map[string]string{}
	for name, function := range sprig.TxtFuncMap() {
		signatures[name] = reflect.TypeOf(function).String()
	}
	write(filepath.Join(filepath.Dir(path), "..", "signatures.json"), signatures)
	raw, err := os.ReadFile(path)
	if err != nil {
		fail(err)
	}
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		fail(err)
	}
	f.RecordedWith = fmt.Sprintf("%s text/template, Masterminds/sprig v3.3.0 TxtFuncMap", runtime.Version())
	for i := range f.Cases {
		answer(&f.Cases[i], f.Data)
	}
	write(path, f)
}
