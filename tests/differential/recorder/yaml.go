package main

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

func readYAML(asked question) answer {
	text, err := yaml.YAMLToJSON([]byte(asked.Text))
	if err != nil {
		return failed(err)
	}
	return answer{Result: string(text)}
}

// writeYAML prints JSON data as the template function toYaml does: every number is a float64.
func writeYAML(asked question) answer {
	var data any
	check(json.Unmarshal(asked.Data, &data))
	text, err := yaml.Marshal(data)
	if err != nil {
		return failed(err)
	}
	return answer{Result: string(text)}
}
