package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apijson "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

var (
	scheme          = runtime.NewScheme()
	lenient, strict = decoder(false), decoder(true)
	podKind         = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

func init() {
	check(corev1.AddToScheme(scheme))
}

func decoder(strictly bool) *apijson.Serializer {
	options := apijson.SerializerOptions{Strict: strictly}
	return apijson.NewSerializerWithOptions(apijson.DefaultMetaFactory, scheme, scheme, options)
}

// pod is a pod as the API server sends it to a webhook: decoded, and encoded again.
func pod(asked question) answer {
	decoded, err := decode(lenient, asked.Original)
	if err != nil {
		return failed(err)
	}
	return answer{Result: string(encode(decoded))}
}

// sound applies a patch as the API server does, decodes what it gives, and compares it with what the injector says it gives.
//
// Its result is the pod after the patch as JSON, and its faults are what is wrong with the patch; an error means that the pod was
// no pod before.
func sound(asked question) answer {
	if _, err := decode(lenient, asked.Original); err != nil {
		return failed(err)
	}
	applied, err := apply(asked.Patch, asked.Original)
	if err != nil {
		return answer{Faults: []string{"not applied: " + err.Error()}}
	}
	given := answer{Result: string(applied)}
	after, err := decode(lenient, applied)
	if err != nil {
		given.Faults = append(given.Faults, "not decoded: "+err.Error())
		return given
	}
	if _, err := decode(strict, asked.Original); err == nil {
		if _, err := decode(strict, applied); err != nil {
			given.Faults = append(given.Faults, "not strictly decoded: "+err.Error())
		}
	}
	ours, err := decode(lenient, asked.Merged)
	if err != nil {
		given.Faults = append(given.Faults, "our own pod not decoded: "+err.Error())
	} else if !bytes.Equal(encode(after), encode(ours)) {
		given.Faults = append(given.Faults, "not our own pod: "+string(encode(after)))
	}
	return given
}

func apply(patch, document []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}

func decode(from *apijson.Serializer, document json.RawMessage) (runtime.Object, error) {
	decoded, kind, err := from.Decode(document, &podKind, &corev1.Pod{})
	if err == nil && *kind != podKind {
		return nil, fmt.Errorf("not a Pod: %s", kind)
	}
	return decoded, err
}

func encode(object runtime.Object) []byte {
	var out bytes.Buffer
	check(lenient.Encode(object, &out))
	return bytes.TrimSpace(out.Bytes())
}
