//go:build ignore

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config/constants"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
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
	env.SetPushContext(&model.PushContext{ProxyConfigs: model.GetProxyConfigs(stored(configs), m)})
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
	// OpenShift's ranges of ids of the namespace of the pods.
	if text := os.Getenv("NAMESPACE_ANNOTATIONS"); text != "" {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		must(json.Unmarshal([]byte(text), &namespace.Annotations))
		objects = append(objects, namespace)
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
