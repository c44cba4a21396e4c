// Command yamlwrite records what sigs.k8s.io/yaml and encoding/json print of JSON values.
//
//	go run ./yamlwrite ../corpus/yaml_write.json
//
// It answers the values that the file already has; to add a case, add an object with a "value". Numbers stay what they are written
// as: 1 is an integer, 1.0 a float64.
package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"recorder/internal/corpus"

	"sigs.k8s.io/yaml"
)

type testCase struct {
	Value json.RawMessage `json:"value"`
	YAML  string          `json:"yaml,omitempty"`
	Error string          `json:"error,omitempty"` // of the YAML; JSON takes any text
	JSON  string          `json:"json"`            // json.Marshal
	Plain string          `json:"plain"`           // without escapes for HTML
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	value := decode(each.Value)
	each.YAML, each.Error = "", ""
	if text, err := yaml.Marshal(value); err == nil {
		each.YAML = string(text)
	} else {
		each.Error = err.Error()
	}
	marshalled, err := json.Marshal(value)
	corpus.Check(err)
	each.JSON = string(marshalled)
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	corpus.Check(encoder.Encode(value))
	each.Plain = strings.TrimSuffix(plain.String(), "\n")
}

// decode tells integers from floats by their text, as a Python reader of the file does.
func decode(raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	corpus.Check(decoder.Decode(&value))
	return typed(value)
}

func typed(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = typed(v[key])
		}
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil && v.String() != "-0" {
			return n
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		corpus.Check(err)
		return f
	}
	return value
}
