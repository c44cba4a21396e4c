// Command recorder says what Go makes of inputs: one JSON object to a line on standard input, one answer to a line on standard output.
//
//	go build -o /tmp/answers . && /tmp/answers merge < questions.jsonl
//
// Its argument is the kind of all questions, a key of kinds.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

const longestLine = 64 << 20

var kinds = map[string]func(question) answer{
	"merge":       merge,
	"yaml":        readYAML,
	"yamlwrite":   writeYAML,
	"template":    render,
	"proxyconfig": proxyConfig,
	"meshconfig":  meshConfig,
	"pod":         pod,
	"sound":       sound,
}

type question struct {
	Type     string          `json:"type"`
	Original json.RawMessage `json:"original"`
	Patch    json.RawMessage `json:"patch"`
	Merged   json.RawMessage `json:"merged"`
	Text     string          `json:"text"`
	Base     string          `json:"base"`
	Data     json.RawMessage `json:"data"`
	Runs     int             `json:"runs"`
}

type answer struct {
	Result string   `json:"result,omitempty"`
	Error  string   `json:"error,omitempty"`
	Varies bool     `json:"varies,omitempty"` // Go answers otherwise from run to run: it walks maps in random order
	Faults []string `json:"faults,omitempty"`
}

func main() {
	answered, known := kinds[os.Args[1]]
	if !known {
		check(fmt.Errorf("no kind of question: %s", os.Args[1]))
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		check(json.Unmarshal(lines.Bytes(), &asked))
		check(encoder.Encode(repeated(answered, asked)))
	}
	check(lines.Err())
	check(out.Flush())
}

// repeated asks again as often as the question says, and tells whether the answer is always the same.
func repeated(answered func(question) answer, asked question) answer {
	first := guarded(answered, asked)
	for range asked.Runs {
		again := guarded(answered, asked)
		if again.Result != first.Result || (again.Error == "") != (first.Error == "") {
			return answer{Varies: true}
		}
	}
	return first
}

func guarded(answered func(question) answer, asked question) (given answer) {
	defer func() {
		if caught := recover(); caught != nil {
			given = answer{Error: fmt.Sprint("panic: ", caught)}
		}
	}()
	return answered(asked)
}

func failed(err error) answer {
	return answer{Error: err.Error()}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
