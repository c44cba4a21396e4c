package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// types are those that a description may name beside slices, maps and pointers of them.
var types = map[string]reflect.Type{
	"interface {}": reflect.TypeFor[any](),
	"bool":         reflect.TypeFor[bool](),
	"string":       reflect.TypeFor[string](),
	"int":          reflect.TypeFor[int](),
	"int8":         reflect.TypeFor[int8](),
	"int16":        reflect.TypeFor[int16](),
	"int32":        reflect.TypeFor[int32](),
	"int64":        reflect.TypeFor[int64](),
	"uint":         reflect.TypeFor[uint](),
	"uint8":        reflect.TypeFor[uint8](),
	"uint16":       reflect.TypeFor[uint16](),
	"uint32":       reflect.TypeFor[uint32](),
	"uint64":       reflect.TypeFor[uint64](),
	"float32":      reflect.TypeFor[float32](),
	"float64":      reflect.TypeFor[float64](),
	"complex128":   reflect.TypeFor[complex128](),
	"main.Name":    reflect.TypeFor[Name](),
	"main.Level":   reflect.TypeFor[Level](),
	"main.Point":   reflect.TypeFor[Point](),
	"main.User":    reflect.TypeFor[User](),
	"main.Box":     reflect.TypeFor[Box](),
	"main.Fault":   reflect.TypeFor[Fault](),
	"main.Outer":   reflect.TypeFor[Outer](),
	"main.Broken":  reflect.TypeFor[Broken](),
}

func typeOf(name string) reflect.Type {
	if known, ok := types[name]; ok {
		return known
	}
	if inner, ok := strings.CutPrefix(name, "*"); ok {
		return reflect.PointerTo(typeOf(inner))
	}
	if inner, ok := strings.CutPrefix(name, "[]"); ok {
		return reflect.SliceOf(typeOf(inner))
	}
	if inner, ok := strings.CutPrefix(name, "map["); ok {
		key, elem, _ := strings.Cut(inner, "]")
		return reflect.MapOf(typeOf(key), typeOf(elem))
	}
	panic("unknown type " + name)
}

type described struct {
	Type  string          `json:"$"`
	Value json.RawMessage `json:"v"`
}

// build makes the Go value that raw describes.
func build(raw json.RawMessage) any {
	value := reflect.New(types["interface {}"]).Elem()
	fill(value, raw)
	return value.Interface()
}

func fill(target reflect.Value, raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return
	}
	switch target.Kind() {
	case reflect.Interface:
		fillAny(target, raw)
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		fill(target.Elem(), raw)
	case reflect.Slice:
		var items []json.RawMessage
		must(json.Unmarshal(raw, &items))
		target.Set(reflect.MakeSlice(target.Type(), len(items), len(items)))
		for i, item := range items {
			fill(target.Index(i), item)
		}
	case reflect.Map:
		var items map[string]json.RawMessage
		must(json.Unmarshal(raw, &items))
		target.Set(reflect.MakeMap(target.Type()))
		for name, item := range items {
			key, elem := reflect.New(target.Type().Key()).Elem(), reflect.New(target.Type().Elem()).Elem()
			fillKey(key, name)
			fill(elem, item)
			target.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		var fields map[string]json.RawMessage
		must(json.Unmarshal(raw, &fields))
		for name, item := range fields {
			fill(target.FieldByName(name), item)
		}
	default:
		fillScalar(target, raw)
	}
}

func fillAny(target reflect.Value, raw json.RawMessage) {
	var d described
	if raw[0] == '{' && json.Unmarshal(raw, &d) == nil && d.Type != "" {
		if d.Type == "call" {
			var name string
			must(json.Unmarshal(d.Value, &name))
			target.Set(reflect.ValueOf(callables[name]))
			return
		}
		value := reflect.New(typeOf(d.Type)).Elem()
		fill(value, d.Value)
		target.Set(value)
		return
	}
	switch raw[0] {
	case '[':
		value := reflect.New(reflect.TypeFor[[]any]()).Elem()
		fill(value, raw)
		target.Set(value)
	case '{':
		value := reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		fill(value, raw)
		target.Set(value)
	default:
		var value any
		must(json.Unmarshal(raw, &value))
		target.Set(reflect.ValueOf(value))
	}
}

func fillKey(key reflect.Value, text string) {
	switch {
	case key.Kind() == reflect.Interface:
		fillAny(key, json.RawMessage(text))
	case key.Kind() == reflect.String:
		key.SetString(text)
	default:
		fillScalar(key, json.RawMessage(text))
	}
}

// fillScalar reads floats that JSON has not from strings ("NaN", "+Inf"), complex numbers from lists of two and strings of any bytes
// from objects {"hex": ...}.
func fillScalar(target reflect.Value, raw json.RawMessage) {
	text := strings.Trim(string(raw), `"`)
	switch kind := target.Kind(); {
	case target.CanInt():
		number, err := strconv.ParseInt(text, 10, 64)
		must(err)
		target.SetInt(number)
	case target.CanUint():
		number, err := strconv.ParseUint(text, 10, 64)
		must(err)
		target.SetUint(number)
	case target.CanFloat():
		number, err := strconv.ParseFloat(text, 64)
		must(err)
		target.SetFloat(number)
	case kind == reflect.Complex128:
		var parts [2]float64
		must(json.Unmarshal(raw, &parts))
		target.SetComplex(complex(parts[0], parts[1]))
	case kind == reflect.Bool:
		target.SetBool(text == "true")
	case kind == reflect.String && raw[0] == '{':
		var d struct{ Hex []uint8 }
		must(json.Unmarshal(raw, &d))
		target.SetString(string(d.Hex))
	default:
		var value string
		must(json.Unmarshal(raw, &value))
		target.SetString(value)
	}
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("bad description: %v", err))
	}
}
