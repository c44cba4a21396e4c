// Command yamlread records what sigs.k8s.io/yaml makes of YAML texts: JSON or an error.
//
//	go run ./yamlread ../corpus/yaml_read.json
//
// It answers the inputs that the file already has; to add a case, add an object with an "input".
package main

import (
	"encoding/base64"

	"recorder/internal/corpus"

	"sigs.k8s.io/yaml"
)

type testCase struct {
	Name   string `json:"name"`
	Input  string `json:"input"`
	Base64 bool   `json:"base64,omitempty"` // the input is bytes that are no Unicode text
	JSON   string `json:"json,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	text := []byte(each.Input)
	if each.Base64 {
		decoded, err := base64.StdEncoding.DecodeString(each.Input)
		corpus.Check(err)
		text = decoded
	}
	each.JSON, each.Error = "", ""
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		each.Error = err.Error()
		return
	}
	each.JSON = string(json)
}
