// Command podfields writes which fields of a pod each Istio minor knows: for each field of PodSpec and ObjectMeta, and what they
// reach, the first minor whose k8s.io/api has it, and the last one too (1.29-1.30) if it was dropped. Fields that all have are left out.
//
//	go run ./podfields ../../../injector/istio/podfields.json
//
// It reads the sources of k8s.io/api, since so many versions cannot be linked into one program; they come by `go mod download`.
package main

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// versions are those of k8s.io/api in Istio's go.mod at the last tag of each minor, from 1.0 on. The first two had no go.mod: their
// Gopkg.toml says kubernetes-1.10.4 and release-1.11, and here are the nearest that the module proxy has.
var versions = []string{
	"v0.0.0-20180521142803-feb48db456a5", "v0.0.0-20180628040859-072894a440bd", "v0.0.0-20190222213804-5cb15d344471",
	"v0.0.0-20190222213804-5cb15d344471", "v0.0.0-20191003000013-35e20aa79eb8", "v0.17.2", "v0.18.1", "v0.18.3", "v0.19.3", "v0.20.1", "v0.20.5", "v0.21.2", "v0.22.2",
	"v0.24.1", "v0.24.2", "v0.24.2", "v0.25.2", "v0.26.7", "v0.27.0", "v0.28.1", "v0.28.3", "v0.29.0", "v0.30.0", "v0.30.1",
	"v0.31.1", "v0.32.2", "v0.33.3", "v0.33.3", "v0.34.1", "v0.35.3", "v0.35.3", "v0.36.1",
}

// structs are the fields of each struct: JSON name to the name of the type that its values have, whatever holds them.
type structs map[string]map[string]string

func main() {
	tables := make([]structs, len(versions))
	for i, version := range versions {
		if i > 0 && version == versions[i-1] {
			tables[i] = tables[i-1]
			continue
		}
		tables[i] = read(version)
	}
	newest := tables[len(tables)-1]
	since := map[string]string{}
	for minor := len(tables) - 2; minor >= 0; minor-- {
		compare("PodSpec", "PodSpec", newest, tables[minor], "1."+strconv.Itoa(minor+1), since, map[string]bool{})
	}
	dropped := map[string]string{}
	for minor, table := range tables {
		had := map[string]string{}
		compare("PodSpec", "PodSpec", table, newest, "1."+strconv.Itoa(minor), had, map[string]bool{})
		for name, here := range had {
			if owner, field, _ := strings.Cut(strings.TrimPrefix(name, "v1."), "."); newest[owner][field] != "" {
				continue // another struct, with fewer fields, has taken its owner's place somewhere
			}
			first, _, _ := strings.Cut(cmp.Or(dropped[name], here), "-")
			dropped[name] = first + "-" + here
		}
	}
	maps.Copy(since, dropped)
	text, err := json.MarshalIndent(since, "", " ")
	check(err)
	check(os.WriteFile(os.Args[1], append(text, '\n'), 0o644))
}

// compare notes the fields of a struct that the older table lacks. Structs are compared by where they are reached, since some were
// renamed.
func compare(now, then string, newest, older structs, next string, since map[string]string, seen map[string]bool) {
	if seen[now] {
		return
	}
	seen[now] = true
	for name, kind := range newest[now] {
		old, found := older[then][name]
		if key := "v1." + now + "." + name; !found {
			if _, later := since[key]; !later {
				since[key] = next
			}
		} else {
			compare(kind, old, newest, older, next, since, seen)
		}
	}
}

func read(version string) structs {
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/api@"+version).Output()
	check(err)
	var module struct{ Dir string }
	check(json.Unmarshal(out, &module))
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(module.Dir, "core", "v1", "types.go"), nil, 0)
	check(err)
	declared := map[string]*ast.StructType{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if body, ok := spec.Type.(*ast.StructType); ok {
				declared[spec.Name.Name] = body
			}
		}
		return true
	})
	found := structs{}
	for name := range declared {
		found[name] = fields(name, declared)
	}
	return found
}

func fields(name string, declared map[string]*ast.StructType) map[string]string {
	found := map[string]string{}
	body, ok := declared[name]
	if !ok {
		return found
	}
	for _, field := range body.Fields.List {
		tag := ""
		if field.Tag != nil {
			text, err := strconv.Unquote(field.Tag.Value)
			check(err)
			tag, _, _ = strings.Cut(reflect.StructTag(text).Get("json"), ",")
		}
		kind := held(field.Type)
		switch {
		case tag == "-":
		case tag != "":
			found[tag] = kind
		case len(field.Names) == 0:
			for inner, of := range fields(kind, declared) {
				found[inner] = of
			}
		}
	}
	return found
}

// held is the name of the type that a field's values have, through pointers, slices and maps.
func held(kind ast.Expr) string {
	switch kind := kind.(type) {
	case *ast.StarExpr:
		return held(kind.X)
	case *ast.ArrayType:
		return held(kind.Elt)
	case *ast.MapType:
		return held(kind.Value)
	case *ast.Ident:
		return kind.Name
	}
	return ""
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
