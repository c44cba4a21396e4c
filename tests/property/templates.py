"""Templates that hypothesis makes up: by the grammar, and so that most of them parse."""

from __future__ import annotations

from hypothesis import strategies as st

CONSTANTS = ["1", "-2.5", "0x1F", "'a'", '"text"', "`raw`", "true", "false", "1i"]
FIELDS = [".a", ".a.b", ".l", ".nope", ".nope.x", "$", "$.a", "$x", "$x.b", "."]
CALLS = ["print", "printf", "len", "index", "not", "and", "or", "eq", "lt", "html", "slice"]

OPERANDS = st.recursive(
    st.sampled_from(CONSTANTS + FIELDS),
    lambda inner: st.tuples(st.sampled_from(CALLS), st.lists(inner, min_size=1, max_size=2)).map(
        lambda call: f"({call[0]} {' '.join(call[1])})"
    ),
    max_leaves=4,
)
PIPELINES = st.tuples(
    OPERANDS, st.lists(st.sampled_from(["print", "printf", "len", "not", "html", "print 1"]), max_size=2)
).map(lambda parts: " | ".join((parts[0], *parts[1])))


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(inner, max_size=3).map("".join)
    return st.one_of(
        st.tuples(PIPELINES, sequence, sequence).map(lambda p: f"{{{{if {p[0]}}}}}{p[1]}{{{{else}}}}{p[2]}{{{{end}}}}"),
        st.tuples(PIPELINES, sequence).map(lambda p: f"{{{{with {p[0]}}}}}{p[1]}{{{{end}}}}"),
        st.tuples(PIPELINES, PIPELINES, sequence, sequence).map(
            lambda p: f"{{{{if {p[0]}}}}}{p[2]}{{{{else if {p[1]}}}}}{p[3]}{{{{end}}}}"
        ),
        st.tuples(
            st.sampled_from(["", "$i := ", "$x, $e := ", "$x = "]), st.sampled_from([".l", ".", "2", ".a"]), sequence
        ).map(lambda p: f"{{{{range {p[0]}{p[1]}}}}}{p[2]}{{{{if .nope}}}}{{{{break}}}}{{{{end}}}}{{{{end}}}}"),
    )


BODIES = st.recursive(
    st.one_of(
        st.text(alphabet="ab \n-}☃", max_size=5),
        PIPELINES.map(lambda pipeline: f"{{{{{pipeline}}}}}"),
        PIPELINES.map(lambda pipeline: f"{{{{- $x = {pipeline} -}}}}"),
        st.sampled_from(['{{template "d" .}}', '{{template "d"}}', "{{/* c */}}"]),
    ),
    _blocks,
    max_leaves=8,
)
TEMPLATES = st.tuples(st.lists(BODIES, max_size=4), BODIES).map(
    lambda parts: f'{{{{$x := 1}}}}{"".join(parts[0])}{{{{define "d"}}}}{{{{$x := 2}}}}{parts[1]}{{{{end}}}}'
)
