// Package corpus reads and writes the files of recorded cases: a JSON list, one case to a line.
package corpus

import (
	"bytes"
	"encoding/json"
	"os"
)

// Answer records the answer to each case of the file that is the program's first argument.
func Answer[Case any](record func(*Case)) {
	path := os.Args[1]
	cases := Read[Case](path)
	for i := range cases {
		record(&cases[i])
	}
	Write(path, cases)
}

// Read decodes the list of cases at path.
func Read[Case any](path string) []Case {
	data, err := os.ReadFile(path)
	Check(err)
	var cases []Case
	Check(json.Unmarshal(data, &cases))
	return cases
}

// Write encodes the cases, one to a line, so that a change of one shows as one line.
func Write[Case any](path string, cases []Case) {
	var out bytes.Buffer
	separator := "[\n"
	for _, each := range cases {
		out.WriteString(separator)
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		Check(encoder.Encode(each))
		out.Write(bytes.TrimRight(line.Bytes(), "\n"))
		separator = ",\n"
	}
	out.WriteString("\n]\n")
	Check(os.WriteFile(path, out.Bytes(), 0o644))
}

// Check ends the program on an error.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}
