package main

import (
	"strings"

	"github.com/golang/protobuf/jsonpb" //nolint: staticcheck // what Istio reads and writes its messages by
	"github.com/golang/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

func proxyConfig(asked question) answer {
	return overlaid(&meshconfig.ProxyConfig{}, asked)
}

func meshConfig(asked question) answer {
	return overlaid(&meshconfig.MeshConfig{}, asked)
}

// overlaid is one config in YAML read on top of another, printed as JSON. As in Istio, a text with fields that are not known is
// read once more, on top of what came of the first time.
func overlaid(config proto.Message, asked question) answer {
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
