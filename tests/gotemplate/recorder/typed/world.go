package main

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// The types of the corpus. tests/gotemplate/world.py has their twins.

type Name string

type Level int

func (l Level) String() string { return "L" + strings.Repeat("+", int(l)) }

type Point struct{ X, Y int }

type Box struct {
	Any   any
	Names []Name
	Seen  map[string]bool
	Calls func(int, int) int
	Inner *Box
}

type User struct {
	Name   string
	Age    int
	Tags   []string
	Labels map[string]string
	Boss   *User
	Any    any
	secret string
}

func (u User) Hello() string                { return "hello " + u.Name }
func (u User) Greet(who string) string      { return u.Name + " greets " + who }
func (u User) Older(by int, and ...int) int { return u.Age + by + sum(and) }
func (u User) Refuse() (string, error)      { return "", errors.New("refused") }
func (u User) Panics() string               { panic("out of order") }
func (u User) Self() User                   { return u }
func (u User) Nothing() any                 { return nil }
func (u User) Accept(x any) (string, error) { return fmt.Sprintf("%T", x), nil }
func (u User) Points(p Point) int           { return p.X + p.Y }

type Fault struct{ Text string }

func (f Fault) Error() string { return "fault: " + f.Text }

type Outer struct {
	Point
	Z int
}

type Broken struct{ Text string }

func (Broken) String() string { panic("no text") }

func sum(numbers []int) (total int) {
	for _, number := range numbers {
		total += number
	}
	return total
}

// callables are function values that data may hold.
var callables = map[string]any{
	"add":    func(a, b int) int { return a + b },
	"join":   func(sep string, parts ...string) string { return strings.Join(parts, sep) },
	"any":    func(x any) string { return fmt.Sprintf("%T", x) },
	"refuse": func() (int, error) { return 0, errors.New("no") },
	"seq":    count,
	"pairs":  letters,
	"empty":  func(func(int) bool) {},
}

func count(yield func(int) bool) {
	for i := range 3 {
		if !yield(i * 10) {
			return
		}
	}
}

func letters(yield func(string, int) bool) {
	for i, c := range "abc" {
		if !yield(string(c), i) {
			return
		}
	}
}

var functions = map[string]template.FuncMap{
	"typed": {
		"str":       func(x string) string { return "<" + x + ">" },
		"num":       func(x int) string { return fmt.Sprintf("%d", x) },
		"i8":        func(x int8) string { return fmt.Sprintf("%d", x) },
		"i64":       func(x int64) string { return fmt.Sprintf("%d", x) },
		"u8":        func(x uint8) string { return fmt.Sprintf("%d", x) },
		"u64":       func(x uint64) string { return fmt.Sprintf("%d", x) },
		"f32":       func(x float32) string { return fmt.Sprintf("%v", x) },
		"f64":       func(x float64) string { return fmt.Sprintf("%v", x) },
		"c128":      func(x complex128) string { return fmt.Sprintf("%v", x) },
		"flag":      func(x bool) string { return fmt.Sprintf("%v", x) },
		"same":      func(x any) any { return x },
		"kind":      func(x any) string { return fmt.Sprintf("%T", x) },
		"strs":      func(x []string) string { return fmt.Sprintf("%#v", x) },
		"anys":      func(x []any) string { return fmt.Sprintf("%#v", x) },
		"strmap":    func(x map[string]string) string { return fmt.Sprintf("%#v", x) },
		"anymap":    func(x map[string]any) string { return fmt.Sprintf("%#v", x) },
		"user":      func(x User) string { return x.Name },
		"userp":     func(x *User) string { return fmt.Sprintf("%v", x == nil) },
		"named":     func(x Name) string { return string(x) },
		"point":     func(x Point) string { return fmt.Sprint(x) },
		"ints":      func(x ...int) string { return fmt.Sprint(len(x), x) },
		"sep":       func(sep string, x ...string) string { return strings.Join(x, sep) },
		"many":      func(x ...any) string { return fmt.Sprint(len(x), x) },
		"none":      func() string { return "none" },
		"two":       func(a string, b int) string { return fmt.Sprint(a, b) },
		"refuse":    func() (string, error) { return "", errors.New("refused") },
		"panics":    func() string { panic("out of order") },
		"panicsErr": func() string { panic(errors.New("out of luck")) },
		"nilany":    func() any { return nil },
		"nilmap":    func() map[string]string { return nil },
		"nilslice":  func() []string { return nil },
		"niluser":   func() *User { return nil },
		"mkuser":    func(name string) *User { return &User{Name: name, Age: 30} },
		"mkpoint":   func(x, y int) Point { return Point{x, y} },
		"mkname":    func(x string) Name { return Name(x) },
		"mkint64":   func(x int) int64 { return int64(x) },
		"mkuint8":   func(x int) uint8 { return uint8(x) },
		"mkfloat32": func(x float64) float32 { return float32(x) },
		"fn":        func(name string) any { return callables[name] },
		"adder":     func() func(int, int) int { return callables["add"].(func(int, int) int) },
		"call2":     func(f func(int, int) int) int { return f(1, 2) },
		"percent":   func() (string, error) { return "", errors.New("100%d <%s>") },
		"anyfield":  func() any { return map[string]any{"a": 1} },
	},
	"loops": { // names that are keywords unless functions have them
		"break":    func() string { return "BREAK" },
		"continue": func() string { return "CONTINUE" },
	},
	"shadow": { // functions win over Go's own
		"len":   func(x any) string { return "my len" },
		"and":   func(x ...any) string { return "my and" },
		"print": func(x string) string { return "my print" },
		"eq":    func(x, y any) bool { return true },
		"call":  func(x any) string { return "my call" },
	},
}
