// Command driver answers pods as the webhook of one Istio release does. It is built within the source tree of that release, with one of
// the files webhook_*.go, because the code around the webhook differs, and from 1.13 on with store_1_13.go: see
// tests/differential/injectors.py.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"
)

// question is one pod; answer is what the webhook makes of it.
type question struct {
	Path      string          `json:"path,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	Pod       json.RawMessage `json:"pod"`
}

type answer struct {
	Patch   json.RawMessage `json:"patch,omitempty"`
	Error   string          `json:"error,omitempty"`
	Skipped bool            `json:"skipped,omitempty"`
}

// proxyConfig is one resource of kind ProxyConfig; releases before 1.13 have none.
type proxyConfig struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Created   time.Time       `json:"created"`
	Spec      json.RawMessage `json:"spec"`
}

func ask(handler http.Handler, q question) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	path := q.Path
	if path == "" {
		path = "/inject"
	}
	review, err := json.Marshal(map[string]interface{}{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]interface{}{"uid": "u", "namespace": q.Namespace, "object": q.Pod},
	})
	if err != nil {
		panic(err)
	}
	request := httptest.NewRequest("POST", path, bytes.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if recorder.Code != 200 {
		return answer{Error: fmt.Sprintf("status %d: %s", recorder.Code, recorder.Body.String())}
	}
	var out struct {
		Response struct {
			Allowed bool
			Patch   []byte
			Status  struct{ Message string }
		}
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &out); err != nil {
		return answer{Error: "response: " + err.Error()}
	}
	if !out.Response.Allowed {
		return answer{Error: out.Response.Status.Message}
	}
	if out.Response.Patch == nil {
		return answer{Skipped: true}
	}
	return answer{Patch: out.Response.Patch}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func read(name string) []byte {
	data, err := os.ReadFile(name)
	must(err)
	return data
}

// main: driver CONFIG VALUES MESH PROXYCONFIGS REVISION [NODE=VERSION...]; questions on stdin, answers on stdout, one JSON object a line.
func main() {
	stdout := os.Stdout
	os.Stdout = os.Stderr
	var configs []proxyConfig
	must(json.Unmarshal(read(os.Args[4]), &configs))
	handler := webhook(os.Args[1], os.Args[2], string(read(os.Args[3])), configs, os.Args[5], os.Args[6:])
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		must(json.Unmarshal(in.Bytes(), &q))
		must(encoder.Encode(ask(handler, q)))
	}
	must(in.Err())
	must(out.Flush())
}
