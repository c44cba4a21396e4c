package main

import (
	"strings"

	"github.com/golang/protobuf/jsonpb" //nolint: staticcheck // what Istio reads and writes its messages by
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

// proxyConfig is one ProxyConfig in YAML read on top of another, printed as JSON. As in Istio, a text with fields that are not
// known is read once more, on top of what came of the first time.
func proxyConfig(asked question) answer {
	config := &meshconfig.ProxyConfig{}
	for _, text := range []string{asked.Base, asked.Text} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return failed(err)
		}
		strictly := jsonpb.Unmarshaler{}
		if strictly.Unmarshal(strings.NewReader(string(data)), config) == nil {
			continue
		}
		leniently := jsonpb.Unmarshaler{AllowUnknownFields: true}
		if err := leniently.Unmarshal(strings.NewReader(string(data)), config); err != nil {
			return failed(err)
		}
	}
	text, err := (&jsonpb.Marshaler{}).MarshalToString(config)
	if err != nil {
		return failed(err)
	}
	return answer{Result: text}
}
