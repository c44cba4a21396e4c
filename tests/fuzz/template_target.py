"""Any text as a Go template: lexed, parsed, printed, compiled.

An answer is a ``ParseError`` at a line of the text. A bug is any other exception, a tree that prints as something that parses to
another tree, and a text that parses but does not compile.
"""

from __future__ import annotations

from collections.abc import Iterator

from injector.golang.strconv import quote
from injector.gotemplate import ParseError, compile_template
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.nodes import Tree
from injector.gotemplate.parser import parse_template
from tests.fuzz.draws import LONG, Draws
from tests.fuzz.target import Target, recorded

DELIMITERS = (("{{", "}}"), ("[[", "]]"), ("<", ">"), ("é", "☃"))
WORDS = (
    *("{{", "}}", "{{- ", " -}}", "/*", "*/", "{{end}}", "{{else}}", "{{if ", "{{else if ", "{{with "),
    *("{{else with ", "{{range ", "{{break}}", "{{continue}}", '{{define "d"}}', '{{template "d" .}}'),
    *('{{block "b" .}}', ":=", "=", "|", "$x", "$", ".x", ".", "nil", "true", "1i", "0x1p4", "0b1", "0o7", "1_000"),
    *("'a'", "'\\u00e9'", '"a\\n"', "`raw`", ",", "print ", "len ", "index ", "(", ")", "[[", "]]", "☃", "é", LONG),
)


def run(data: bytes) -> None:
    """Try a template."""
    draws = Draws(data)
    left, right = draws.choice(DELIMITERS)
    text = draws.whole_text()
    line = 1
    try:
        trees = parse_template("t", text, functions=BUILTINS, left=left, right=right)
    except ParseError as error:
        trees, line = {}, error.line
    assert 1 <= line <= text.count("\n") + 1
    if not trees:
        return
    printed = source_of(trees)
    if left == "{{" and not _ambiguous(text, printed):
        again = parse_template("t", printed, functions=BUILTINS)
        assert source_of(again) == printed, printed
    _ = compile_template("t", text, funcs={}, left=left, right=right).program


def _ambiguous(text: str, printed: str) -> bool:
    """Whether a text that ends with a brace may stand before an action, or another text, with nothing left in between; as in Go."""
    return "{{{" in printed or "/*" in text


def source_of(trees: dict[str, Tree]) -> str:
    """The text that a set of trees prints as: the definitions, then what is around them."""
    inner = (f"{{{{define {quote(name)}}}}}{tree.root}{{{{end}}}}" for name, tree in trees.items() if name != "t")
    return f"{''.join(inner)}{trees['t'].root}"


def seeds() -> Iterator[bytes]:
    """Templates that Go has answered."""
    for name in ("language", "typed", "random"):
        for case in recorded(f"gotemplate/corpus/{name}.json")["cases"]:
            yield b"\x00" + case["template"].encode("utf-8", "surrogateescape")


TARGET = Target(
    run=run,
    modules=tuple(f"gotemplate/{name}.py" for name in ("lexer", "parser", "nodes", "compiler", "codegen")),
    seeds=seeds,
    words=WORDS,
)
