package main

import (
	"strings"

	"github.com/golang/protobuf/jsonpb" //nolint: staticcheck // what Istio reads and writes its messages by
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

// proxyConfig is one ProxyConfig in YAML read on top of another, printed as JSON; unknown fields are ignored, as in Istio.
func proxyConfig(asked question) answer {
	config := &meshconfig.ProxyConfig{}
	for _, text := range []string{asked.Base, asked.Text} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return failed(err)
		}
		reader := jsonpb.Unmarshaler{AllowUnknownFields: true}
		if err := reader.Unmarshal(strings.NewReader(string(data)), config); err != nil {
			return failed(err)
		}
	}
	text, err := (&jsonpb.Marshaler{}).MarshalToString(config)
	if err != nil {
		return failed(err)
	}
	return answer{Result: text}
}
