// Command yamlbombs records whether sigs.k8s.io/yaml reads texts that are made to take long or much, or its error.
//
//	go run ./yamlbombs ../corpus/yaml_bombs.json
//
// A text is its parts, each repeated as often as it says. Only errors are kept: what the others become can be large.
package main

import (
	"strings"

	"recorder/internal/corpus"

	"sigs.k8s.io/yaml"
)

// Go quotes the text that it cannot read.
const longestError = 100

type part struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

type testCase struct {
	Name  string `json:"name"`
	Parts []part `json:"parts"`
	Error string `json:"error,omitempty"`
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	var text strings.Builder
	for _, part := range each.Parts {
		text.WriteString(strings.Repeat(part.Text, part.Times))
	}
	each.Error = ""
	if _, err := yaml.YAMLToJSON([]byte(text.String())); err != nil {
		each.Error = err.Error()[:min(len(err.Error()), longestError)]
	}
}
