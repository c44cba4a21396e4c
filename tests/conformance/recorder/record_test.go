//go:build ignore

// Records the cases of Istio's own tests, and the names and defaults that templates and mesh configs can use. tests/conformance/newminor
// overlays this file on pkg/kube/inject of a checkout, and calls recordConfig, recordCase and recordReview from Istio's tests.
package inject

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pkg/config/mesh"
	common_features "istio.io/istio/pkg/features"
	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/platform"
	"istio.io/istio/pkg/util/protomarshal"
)

var (
	recordLock    sync.Mutex
	recordConfigs = map[*Config]string{}
)

// record appends a line of JSON to the file RECORD.
func record(t testing.TB, line map[string]any) {
	recordLock.Lock()
	defer recordLock.Unlock()
	out, err := os.OpenFile(os.Getenv("RECORD"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := json.NewEncoder(out).Encode(line); err != nil {
		t.Fatal(err)
	}
}

// recordConfig keeps the text from which a Config was read.
func recordConfig(config *Config, text string) {
	recordLock.Lock()
	defer recordLock.Unlock()
	recordConfigs[config] = text
}

// recordCase records the settings of a case; test has its input, its golden file and what else it expects.
func recordCase(t testing.TB, client kube.Client, config *Config, values ValuesConfig, m *meshconfig.MeshConfig, test map[string]any) {
	meshText, err := protomarshal.ToYAML(m)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.Kube().CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{}
	for _, node := range nodes.Items {
		versions = append(versions, node.Status.NodeInfo.KubeletVersion)
	}
	env := map[string]string{"ENABLE_NATIVE_SIDECARS": map[features.NativeSidecarMode]string{
		features.NativeSidecarModeDisabled: "false", features.NativeSidecarModeEnabled: "true", features.NativeSidecarModeAuto: "auto",
	}[features.EnableNativeSidecars]}
	if common_features.CompliancePolicy != "" {
		env["COMPLIANCE_POLICY"] = common_features.CompliancePolicy
	}
	if platform.IsOpenShift() {
		env["PLATFORM"] = platform.OpenShift
	}
	recordLock.Lock()
	text := recordConfigs[config]
	recordLock.Unlock()
	record(t, map[string]any{
		"case": t.Name(), "test": test, "config": text, "values": values.raw, "mesh": meshText, "nodes": versions, "env": env,
	})
}

// recordReview records a pod and what the webhook makes of it.
func recordReview(t testing.TB, namespace string, pod []byte, patched *corev1.Pod) {
	record(t, map[string]any{"review": t.Name(), "namespace": namespace, "pod": json.RawMessage(pod), "patched": patched})
}

// TestRecordFacts records names and defaults, each kind as a map.
func TestRecordFacts(t *testing.T) {
	facts := map[string]map[string]any{
		"template function": {}, "template field": {}, "annotation": {}, "validated annotation": {}, "label": {},
		"mesh config default": {}, "mesh config field": {},
	}
	for name, function := range InjectionFuncmap {
		facts["template function"][name] = reflect.TypeOf(function).String()
	}
	data := reflect.TypeOf(SidecarTemplateData{})
	for i := 0; i < data.NumField(); i++ {
		facts["template field"][data.Field(i).Name] = data.Field(i).Type.String()
	}
	for _, each := range annotation.AllResourceAnnotations() {
		facts["annotation"][each.Name] = each.FeatureStatus.String()
	}
	for name := range AnnotationValidation {
		facts["validated annotation"][name] = ""
	}
	for _, each := range label.AllResourceLabels() {
		facts["label"][each.Name] = each.FeatureStatus.String()
	}
	defaults, err := protomarshal.ToJSONMap(mesh.DefaultMeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	facts["mesh config default"] = defaults
	messageFields((&meshconfig.MeshConfig{}).ProtoReflect().Descriptor(), facts["mesh config field"])
	record(t, map[string]any{"facts": facts})
}

// messageFields adds the fields of a message and of the messages in it, with their types.
func messageFields(message protoreflect.MessageDescriptor, found map[string]any) {
	name := string(message.FullName())
	if _, known := found[name]; known || strings.HasPrefix(name, "google.") {
		return
	}
	found[name] = "message"
	for i := 0; i < message.Fields().Len(); i++ {
		field := message.Fields().Get(i)
		kind := field.Kind().String()
		if field.Message() != nil {
			kind = string(field.Message().FullName())
			messageFields(field.Message(), found)
		}
		if field.Enum() != nil {
			values := []string{}
			for j := 0; j < field.Enum().Values().Len(); j++ {
				values = append(values, string(field.Enum().Values().Get(j).Name()))
			}
			kind = strings.Join(values, "|")
		}
		if field.Cardinality() == protoreflect.Repeated {
			kind = "repeated " + kind
		}
		found[name+"."+field.JSONName()] = kind
	}
}
