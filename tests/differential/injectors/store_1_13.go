//go:build ignore

package main

import (
	"encoding/json"

	"istio.io/api/networking/v1beta1"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/schema/gvk"
)

// stored returns a store with the ProxyConfigs.
func stored(configs []proxyConfig) *model.FakeStore {
	store := model.NewFakeStore()
	for _, each := range configs {
		spec := &v1beta1.ProxyConfig{}
		must(json.Unmarshal(each.Spec, spec))
		meta := config.Meta{
			GroupVersionKind: gvk.ProxyConfig, Name: each.Name, Namespace: each.Namespace, CreationTimestamp: each.Created,
		}
		_, err := store.Create(config.Config{Meta: meta, Spec: spec})
		must(err)
	}
	return store
}
