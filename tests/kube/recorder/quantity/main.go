// Command quantity records what apimachinery's resource.Quantity makes of texts.
//
//	go run ./quantity ../corpus/quantity.json
//
// It answers the texts that the file already has; to add a case, add an object with a "text".
package main

import (
	"encoding/json"

	"recorder/internal/corpus"

	"k8s.io/apimachinery/pkg/api/resource"
)

type testCase struct {
	Text      string `json:"text"`
	Canonical string `json:"canonical,omitempty"`
	Amount    string `json:"amount,omitempty"` // as a decimal number
	Error     string `json:"error,omitempty"`
}

func main() {
	corpus.Answer(record)
}

func record(each *testCase) {
	each.Canonical, each.Amount, each.Error = "", "", ""
	parsed, err := resource.ParseQuantity(each.Text)
	if err != nil {
		each.Error = err.Error()
		return
	}
	text, err := json.Marshal(parsed)
	corpus.Check(err)
	corpus.Check(json.Unmarshal(text, &each.Canonical))
	if len(each.Text) < 60 && parsed.AsApproximateFloat64() < 1e30 {
		each.Amount = parsed.AsDec().String()
	}
}
