package main

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var merged = map[string]any{"v1.Pod": corev1.Pod{}, "v1.Deployment": appsv1.Deployment{}}

// merge is apimachinery's strategic merge patch on what JSON decodes to, as Istio calls it: every number is a float64.
func merge(asked question) answer {
	schema, err := strategicpatch.NewPatchMetaFromStruct(merged[asked.Type])
	check(err)
	var original, patch map[string]any
	check(json.Unmarshal(asked.Original, &original))
	check(json.Unmarshal(asked.Patch, &patch))
	result, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, schema)
	if err != nil {
		return failed(err)
	}
	text, err := json.Marshal(result)
	check(err)
	return answer{Result: string(text)}
}
