//go:build ignore

package main

import (
	"encoding/json"
	"net/http"

	"istio.io/api/networking/v1beta1"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/schema/gvk"
	"istio.io/istio/pkg/kube/inject"
	"istio.io/pkg/log"
)

func webhook(configFile, values, meshText string, configs []proxyConfig, revision string, nodes []string) http.Handler {
	options := log.DefaultOptions()
	options.SetOutputLevel(log.DefaultScopeName, log.NoneLevel)
	must(log.Configure(options))
	m, err := mesh.ApplyMeshConfigDefaults(meshText)
	must(err)
	store := model.NewFakeStore()
	for _, each := range configs {
		spec := &v1beta1.ProxyConfig{}
		must(json.Unmarshal(each.Spec, spec))
		meta := config.Meta{
			GroupVersionKind: gvk.ProxyConfig, Name: each.Name, Namespace: each.Namespace, CreationTimestamp: each.Created,
		}
		_, err = store.Create(config.Config{Meta: meta, Spec: spec})
		must(err)
	}
	proxyConfigs, err := model.GetProxyConfigs(store, m)
	must(err)
	env := &model.Environment{Watcher: mesh.NewFixedWatcher(m), PushContext: &model.PushContext{ProxyConfigs: proxyConfigs}}
	watcher, err := inject.NewFileWatcher(configFile, values)
	must(err)
	mux := http.NewServeMux()
	_, err = inject.NewWebhook(inject.WebhookParameters{
		Watcher: watcher, Env: env, Mux: mux, Revision: revision,
	})
	must(err)
	return mux
}
