//go:build ignore

package main

import (
	"net/http"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config/mesh"
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
	env.SetPushContext(&model.PushContext{ProxyConfigs: model.GetProxyConfigs(stored(configs), m)})
	watcher, err := inject.NewFileWatcher(configFile, values)
	must(err)
	mux := http.NewServeMux()
	_, err = inject.NewWebhook(inject.WebhookParameters{
		Watcher: watcher, Env: env, Mux: mux, Revision: revision,
	})
	must(err)
	return mux
}
