//go:build ignore

package main

import (
	"encoding/json"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"istio.io/api/networking/v1beta1"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/constants"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/config/schema/gvk"
	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/kube/inject"
	"istio.io/istio/pkg/kube/multicluster"
	"istio.io/istio/pkg/log"
)

func webhook(configFile, values, meshText string, configs []proxyConfig, revision string, nodes []string) http.Handler {
	options := log.DefaultOptions()
	options.SetDefaultOutputLevel(log.OverrideScopeName, log.NoneLevel)
	must(log.Configure(options))
	m, err := mesh.ApplyMeshConfigDefaults(meshText)
	must(err)
	env := &model.Environment{Watcher: meshwatcher.NewTestWatcher(m)}
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
	objects := []runtime.Object{}
	for _, node := range nodes {
		name, version, _ := strings.Cut(node, "=")
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version}},
		})
	}
	client := kube.NewFakeClient(objects...)
	controller := multicluster.NewFakeController()
	stop := make(chan struct{})
	mux := http.NewServeMux()
	_, err = inject.NewWebhook(inject.WebhookParameters{
		Watcher: watcher, Env: env, Mux: mux, Revision: revision, MultiCluster: controller,
	})
	must(err)
	controller.Add(constants.DefaultClusterName, client, stop)
	client.RunAndWait(stop)
	return mux
}
