//go:build ignore

package main

import (
	"net/http"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/kube/inject"
	"istio.io/pkg/log"
)

func webhook(configFile, values, meshText string, configs []proxyConfig, revision string, nodes []string) http.Handler {
	options := log.DefaultOptions()
	options.SetOutputLevel(log.DefaultScopeName, log.NoneLevel)
	must(log.Configure(options))
	m, err := mesh.ApplyMeshConfigDefaults(meshText)
	must(err)
	proxyConfigs := model.GetProxyConfigs(stored(configs), m)
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
