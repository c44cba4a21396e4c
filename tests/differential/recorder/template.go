package main

import (
	"bytes"
	"encoding/json"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// Dates are shown in the machine's zone, which is UTC in a pod.
func init() {
	time.Local = time.UTC
}

// render runs a template with sprig's functions, and with Istio's toYaml, on JSON data.
func render(asked question) answer {
	var data any
	check(json.Unmarshal(asked.Data, &data))
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYAML
	parsed, err := template.New("t").Funcs(functions).Parse(asked.Text)
	if err != nil {
		return failed(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return failed(err)
	}
	return answer{Result: out.String()}
}

// toYAML is Istio's: what cannot be marshalled is nothing.
func toYAML(value any) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}
