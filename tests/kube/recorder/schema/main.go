// Command schema writes the table of Kubernetes types that injector/kube reads: for every struct reachable from a Pod, a
// Namespace and the workload kinds of kube-inject, its fields in order, and what their tags say of encoding and merging. Fields of pods
// that later versions of k8s.io/api dropped are added, since earlier minors of Istio have them.
//
//	go run ./schema ../../../injector/kube/schema.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"sort"
	"strings"

	"recorder/internal/corpus"

	openshiftv1 "github.com/openshift/api/apps/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type field struct {
	Go        string `json:"go"`
	JSON      string `json:"json,omitempty"`
	Type      string `json:"type"`
	OmitEmpty bool   `json:"omitempty,omitempty"`
	OmitZero  bool   `json:"omitzero,omitempty"`
	Embedded  bool   `json:"embedded,omitempty"` // its fields can be named without it in Go; without a JSON name, in JSON too
	Strategy  string `json:"patchStrategy,omitempty"`
	MergeKey  string `json:"patchMergeKey,omitempty"`
}

// opaque types encode themselves; injector/kube/typed.py knows each.
var opaque = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():    true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[metav1.Time]():          true,
	reflect.TypeFor[metav1.MicroTime]():     true,
	reflect.TypeFor[metav1.FieldsV1]():      true,
	reflect.TypeFor[runtime.RawExtension](): true,
}

// claimSource and workloadReference are types that k8s.io/api no longer has.
type claimSource struct {
	ResourceClaimName         *string `json:"resourceClaimName,omitempty"`
	ResourceClaimTemplateName *string `json:"resourceClaimTemplateName,omitempty"`
}

type workloadReference struct {
	Name               string `json:"name"`
	PodGroup           string `json:"podGroup"`
	PodGroupReplicaKey string `json:"podGroupReplicaKey,omitempty"`
}

// dropped are fields that k8s.io/api no longer has, each of a struct and after the field of that JSON name.
var dropped = []struct {
	owner, after string
	field        field
}{
	{"v1.EphemeralVolumeSource", "volumeClaimTemplate", field{Go: "ReadOnly", JSON: "readOnly", Type: "bool", OmitEmpty: true}},
	{"v1.PodResourceClaim", "name", field{Go: "Source", JSON: "source", Type: "*v1.ClaimSource", OmitEmpty: true}},
	{"v1.PodSpec", "hostnameOverride", field{Go: "WorkloadRef", JSON: "workloadRef", Type: "*v1.WorkloadReference", OmitEmpty: true}},
}

var (
	structs = map[string][]field{}
	named   = map[string]string{}
	owners  = map[string]reflect.Type{}
)

// name is a type's text as reflect prints it; OpenShift's package is called v1 as well, so it gets a name of its own.
func name(t reflect.Type) string {
	switch {
	case t.Name() != "" && strings.HasPrefix(t.PkgPath(), "github.com/openshift/api/"):
		return "openshiftv1." + t.Name()
	case t.Name() != "":
		return t.String()
	case t.Kind() == reflect.Pointer:
		return "*" + name(t.Elem())
	case t.Kind() == reflect.Slice:
		return "[]" + name(t.Elem())
	case t.Kind() == reflect.Map:
		return "map[" + name(t.Key()) + "]" + name(t.Elem())
	}
	return t.String()
}

// underlying is the text of what a defined type is made of.
func underlying(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map:
		return "map[" + name(t.Key()) + "]" + name(t.Elem())
	case reflect.Slice:
		return "[]" + name(t.Elem())
	}
	return t.Kind().String()
}

func visit(t reflect.Type) {
	if t.Name() != "" && t.PkgPath() != "" {
		if owner, seen := owners[name(t)]; seen {
			if owner != t {
				panic(fmt.Sprintf("two types are called %s: %s and %s", name(t), owner.PkgPath(), t.PkgPath()))
			}
			return
		}
		owners[name(t)] = t
		if t.Kind() != reflect.Struct {
			named[name(t)] = underlying(t)
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		visit(t.Elem())
	case reflect.Map:
		visit(t.Key())
		visit(t.Elem())
	case reflect.Struct:
		if !opaque[t] {
			structs[name(t)] = fields(t)
		}
	}
}

func fields(t reflect.Type) []field {
	found := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || jsonName == "-" {
			continue
		}
		each := field{
			Go: f.Name, JSON: jsonName, Type: name(f.Type),
			Strategy: f.Tag.Get("patchStrategy"), MergeKey: f.Tag.Get("patchMergeKey"),
			Embedded: f.Anonymous,
		}
		for _, option := range strings.Split(options, ",") {
			each.OmitEmpty = each.OmitEmpty || option == "omitempty"
			each.OmitZero = each.OmitZero || option == "omitzero"
		}
		if each.JSON == "" && !each.Embedded {
			each.JSON = f.Name
		}
		found = append(found, each)
		visit(f.Type)
	}
	return found
}

func versions() []string {
	info, _ := debug.ReadBuildInfo()
	var found []string
	for _, dep := range info.Deps {
		switch dep.Path {
		case "k8s.io/api", "k8s.io/apimachinery", "github.com/openshift/api":
			found = append(found, dep.Path+" "+dep.Version)
		}
	}
	return found
}

func main() {
	for _, root := range []any{
		corev1.Pod{}, corev1.PodTemplate{}, corev1.ReplicationController{}, corev1.List{}, corev1.Namespace{},
		appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}, appsv1.DaemonSet{},
		batchv1.Job{}, batchv1.CronJob{}, openshiftv1.DeploymentConfig{}, metav1.LabelSelector{},
	} {
		visit(reflect.TypeOf(root))
	}
	structs["v1.ClaimSource"] = fields(reflect.TypeFor[claimSource]())
	structs["v1.WorkloadReference"] = fields(reflect.TypeFor[workloadReference]())
	for _, each := range dropped {
		at := slices.IndexFunc(structs[each.owner], func(f field) bool { return f.JSON == each.after })
		structs[each.owner] = slices.Insert(structs[each.owner], at+1, each.field)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n\"source\":%s,\n\"named\":%s,\n\"structs\":{", encode(versions()), encode(named))
	names := make([]string, 0, len(structs))
	for each := range structs {
		names = append(names, each)
	}
	sort.Strings(names)
	separator := "\n"
	for _, each := range names {
		fmt.Fprintf(&out, "%s%s:%s", separator, encode(each), encode(structs[each]))
		separator = ",\n"
	}
	out.WriteString("\n}\n}\n")
	corpus.Check(os.WriteFile(os.Args[1], out.Bytes(), 0o644))
}

func encode(value any) string {
	text, err := json.Marshal(value)
	corpus.Check(err)
	return string(text)
}
