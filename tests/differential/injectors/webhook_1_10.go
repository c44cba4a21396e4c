//go:build ignore

package main

import (
	"net/http"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/kube/inject"
	"istio.io/pkg/log"
)

func webhook(config, values, meshText string, configs []proxyConfig, revision string, nodes []string) http.Handler {
	options := log.DefaultOptions()
	options.SetOutputLevel(log.DefaultScopeName, log.NoneLevel)
	must(log.Configure(options))
	m, err := mesh.ApplyMeshConfigDefaults(meshText)
	must(err)
	watcher, err := inject.NewFileWatcher(config, values)
	must(err)
	mux := http.NewServeMux()
	_, err = inject.NewWebhook(inject.WebhookParameters{
		Watcher: watcher, Env: &model.Environment{Watcher: mesh.NewFixedWatcher(m)}, Mux: mux, Revision: revision,
	})
	must(err)
	return mux
}
