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
	"istio.io/istio/pkg/log"
)

func webhook(configFile, values, meshText string, configs []proxyConfig, revision string, nodes []string) http.Handler {
	must(log.Configure(log.DefaultOptions()))
	for _, scope := range log.Scopes() {
		scope.SetOutputLevel(log.NoneLevel)
	}
	m, err := mesh.ApplyMeshConfigDefaults(meshText)
	must(err)
	env := &model.Environment{Watcher: mesh.NewFixedWatcher(m)}
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
	env.SetPushContext(&model.PushContext{ProxyConfigs: model.GetProxyConfigs(store, m)})
	watcher, err := inject.NewFileWatcher(configFile, values)
	must(err)
	mux := http.NewServeMux()
	_, err = inject.NewWebhook(inject.WebhookParameters{
		Watcher: watcher, Env: env, Mux: mux, Revision: revision,
	})
	must(err)
	return mux
}
