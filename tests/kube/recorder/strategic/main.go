// Command strategic records what apimachinery's strategic merge patch makes of an object and a patch.
//
//	go run ./strategic ../corpus/strategic_merge.json
//
// It answers the pairs that the file already has; to add a case, add an object with "original" and "patch". Cases that
// Go answers differently from run to run (it walks maps in random order) are refused.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"recorder/internal/corpus"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type testCase struct {
	Name     string          `json:"name"`
	Type     string          `json:"type,omitempty"`
	Original json.RawMessage `json:"original"`
	Patch    json.RawMessage `json:"patch"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

var types = map[string]any{
	"":              corev1.Pod{},
	"v1.Deployment": appsv1.Deployment{},
	"v1.ObjectMeta": metav1.ObjectMeta{},
	"v1.Volume":     corev1.Volume{},
}

const runs = 10

func main() {
	path := os.Args[1]
	var kept []testCase
	for _, each := range corpus.Read[testCase](path) {
		each.Result, each.Error = merge(each)
		stable := true
		for range runs {
			result, err := merge(each)
			stable = stable && string(result) == string(each.Result) && (err == "") == (each.Error == "")
		}
		if stable {
			kept = append(kept, each)
		} else {
			fmt.Fprintln(os.Stderr, "left out, Go's answer varies:", each.Name)
		}
	}
	corpus.Write(path, kept)
}

func merge(each testCase) (result json.RawMessage, failure string) {
	defer func() {
		if caught := recover(); caught != nil {
			result, failure = nil, fmt.Sprint("panic: ", caught)
		}
	}()
	schema, err := strategicpatch.NewPatchMetaFromStruct(types[each.Type])
	corpus.Check(err)
	// As Istio decodes both sides: every number a float64.
	var original, patch map[string]any
	corpus.Check(json.Unmarshal(each.Original, &original))
	corpus.Check(json.Unmarshal(each.Patch, &patch))
	merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, schema)
	if err != nil {
		return nil, err.Error()
	}
	text, err := json.Marshal(merged)
	corpus.Check(err)
	return text, ""
}
