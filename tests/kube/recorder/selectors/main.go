// Command selectors records what label selectors match.
//
//	go run ./selectors ../corpus/selectors.json
//
// It answers the selectors and labels that the file already has; to add a case, add an object with a "selector".
package main

import (
	"encoding/json"

	"recorder/internal/corpus"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

type testCase struct {
	Selector json.RawMessage     `json:"selector"`
	Labels   []map[string]string `json:"labels"`
	Matches  []bool              `json:"matches,omitempty"`
	Empty    bool                `json:"empty,omitempty"`
	Error    string              `json:"error,omitempty"`
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	each.Matches, each.Empty, each.Error = nil, false, ""
	var raw metav1.LabelSelector
	err := json.Unmarshal(each.Selector, &raw)
	if err != nil {
		each.Error = err.Error()
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(&raw)
	if err != nil {
		each.Error = err.Error()
		return
	}
	each.Empty = selector.Empty()
	for _, set := range each.Labels {
		each.Matches = append(each.Matches, selector.Matches(labels.Set(set)))
	}
}
