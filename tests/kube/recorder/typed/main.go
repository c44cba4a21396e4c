// Command typed records what encoding/json and sigs.k8s.io/yaml make of objects as Go structs of k8s.io/api.
//
//	go run ./typed ../corpus/typed.json
//
// It answers the inputs that the file already has; to add a case, add an object with a "type" and "json" or "yaml".
package main

import (
	"encoding/json"
	"errors"
	"reflect"

	"recorder/internal/corpus"

	openshiftv1 "github.com/openshift/api/apps/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

type testCase struct {
	Name   string          `json:"name"`
	Type   string          `json:"type"`
	JSON   json.RawMessage `json:"json,omitempty"` // decoded by encoding/json
	YAML   string          `json:"yaml,omitempty"` // decoded by sigs.k8s.io/yaml, as kube-inject decodes manifests
	Result string          `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Field  string          `json:"field,omitempty"` // where the error is, if Go says so
}

var types = map[string]reflect.Type{
	"v1.Pod":                       reflect.TypeFor[corev1.Pod](),
	"v1.Container":                 reflect.TypeFor[corev1.Container](),
	"v1.Probe":                     reflect.TypeFor[corev1.Probe](),
	"v1.Volume":                    reflect.TypeFor[corev1.Volume](),
	"v1.List":                      reflect.TypeFor[corev1.List](),
	"v1.Namespace":                 reflect.TypeFor[corev1.Namespace](),
	"v1.ReplicationController":     reflect.TypeFor[corev1.ReplicationController](),
	"v1.ObjectMeta":                reflect.TypeFor[metav1.ObjectMeta](),
	"v1.Deployment":                reflect.TypeFor[appsv1.Deployment](),
	"v1.StatefulSet":               reflect.TypeFor[appsv1.StatefulSet](),
	"v1.DaemonSet":                 reflect.TypeFor[appsv1.DaemonSet](),
	"v1.ReplicaSet":                reflect.TypeFor[appsv1.ReplicaSet](),
	"v1.Job":                       reflect.TypeFor[batchv1.Job](),
	"v1.CronJob":                   reflect.TypeFor[batchv1.CronJob](),
	"openshiftv1.DeploymentConfig": reflect.TypeFor[openshiftv1.DeploymentConfig](),
	"[]v1.Container":               reflect.TypeFor[[]corev1.Container](),
	"v1.ResourceList":              reflect.TypeFor[corev1.ResourceList](),
	"map[string]string":            reflect.TypeFor[map[string]string](),
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	each.Result, each.Error, each.Field = "", "", ""
	target := reflect.New(types[each.Type])
	var err error
	if each.YAML != "" {
		err = yaml.Unmarshal([]byte(each.YAML), target.Interface())
	} else {
		err = json.Unmarshal(each.JSON, target.Interface())
	}
	if err != nil {
		each.Error = err.Error()
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			each.Field = mismatch.Field
		}
		return
	}
	text, err := json.Marshal(target.Interface())
	corpus.Check(err)
	each.Result = string(text)
}
