"""Arguments that make a function of Go templates take long or much, and what calls with them cost: each within a budget of its own.

As a program (``python -m tests.property.hostile SIZE ONE_IN``) it calls every function of Go, sprig and Istio with values of about that
size, one call out of ``ONE_IN``, and prints what escapes the budget, a line of JSON each, and last how many calls there were. It limits its
own memory, and whoever starts it limits its time.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from injector.gotemplate import Budget, TemplateError, compile_template
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.runtime import parse_signature
from injector.gotemplate.sprig.crypto import CertificateStruct
from injector.gotemplate.sprig.dates import to_date
from injector.gotemplate.values import Func, Map, NamedString, Slice
from injector.istio.behaviours import NEWEST
from injector.istio.goview import GoStruct
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.proto import PROXY_CONFIG, Message, message_type
from injector.istio.template import go_functions
from tests.cases import read_cases

SECONDS: Final = 0.5
MEBIBYTES: Final = 32
WORDS: Final = ("x", "", "rsa", "dsa", "ecdsa", "long", "2006-01-02 15:04", "Monday" * 20, "-1.5h")
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
PARTS: Final[list[str]] = _DATA["parts"]
EXPRESSIONS: Final = (
    "(a*)*b",
    "(a{1,30}){1,30}b",
    "((a?){100}){9}b",
    "",
    ".",
    "(x+x+)+y",
    "(.*)(.*)(.*)[0-9]",
    "a.*z|a",
)
NUMBERS: Final = (10**9, 2**63 - 1, -(2**63), 10**6, 1, 0, -1)
FUNCTIONS: Final = {
    **BUILTINS,
    **go_functions((1, 13), {}),
    **go_functions(NEWEST, {}),
}
SKIPPED: Final = frozenset({"and", "or", "call"})
"""They call nothing of their own."""


@dataclass(frozen=True, slots=True)
class Escape:
    """A call that took more than it may, or ended in an error of Python."""

    function: str
    arguments: tuple[str, ...]
    seconds: float
    mebibytes: float
    answer: str


def nested(count: int, inside: Callable[[Any], Any]) -> Any:
    """A value inside others."""
    value: Any = []
    for _ in range(count):
        value = inside(value)
    return value


def in_itself() -> dict[str, Any]:
    """A dictionary that holds itself."""
    value: dict[str, Any] = {}
    value["a"] = value
    return value


def texts(size: int) -> dict[str, str]:
    """Long texts of one kind, with and without an end that fits none of it, and short ones that mean something."""
    long = {part: part * (size // len(part)) for part in PARTS}
    distinct = "".join(map(chr, range(0x4E00, 0x4E00 + min(size, 40_000))))
    closed = {f"{part}...!": f"{text}!" for part, text in long.items()}
    return {**long, **closed, "distinct": distinct, **{word: word for word in (*WORDS, *EXPRESSIONS)}}


def anything(size: int) -> dict[str, Any]:
    """Values of every type."""
    return {
        "text": "a" * size,
        "wide text": "a😀" * (size // 2),
        "digits": "9" * size,
        "numbers": list(range(size // 5)),
        "texts": [str(number) for number in range(size // 10)],
        "twice": nested(60, lambda value: [value, value]),
        "twice in maps": nested(60, lambda value: {"a": value, "b": value}),
        "itself": in_itself(),
        "deep": nested(5_000, lambda value: [value]),
        "entries": {str(number): number for number in range(size // 10)},
        "long keys": {digit * (size // 2): 1 for digit in "12"},
        "lists": [[] for _ in range(size // 5)],
        "one text": ["a" * size] * 1_000,
        "floats": [number / 7 for number in range(size // 10)],
        "integer": 10**18,
        "float": 1e308,
        "nothing": None,
        "name": NamedString("v1.DNSPolicy", "A" * size),
    }


def struct_values(size: int) -> dict[str, dict[str, Any]]:
    """Values of the types that single functions take."""
    entries = Map("string", "string", {f"key{number}": "x" * 10 for number in range(size // 20)})
    ports = [{"containerPort": number, "protocol": "TCP"} for number in range(size // 40)]
    containers = [{"name": f"c{number}", "ports": ports[:10]} for number in range(size // 40)]
    duration = Message(message_type(PROXY_CONFIG), {"drainDuration": 2**63 - 1}).field("DrainDuration")
    return {
        "map[string]string": {"entries": entries, "none": Map("string", "string", {})},
        "v1.ObjectMeta": {"annotated": GoStruct("v1.ObjectMeta", {"annotations": dict(entries)})},
        "[]v1.Container": {
            "many": Slice("v1.Container", [GoStruct("v1.Container", item) for item in containers]),
            "ports": Slice("v1.Container", [GoStruct("v1.Container", {"name": "c", "ports": ports})]),
        },
        "*v1alpha1.MeshConfig": {"mesh": mesh_facts(parse_mesh_config(None, NEWEST)).mesh_pointer},
        "*durationpb.Duration": {"longest": duration},
        "time.Time": {"date": to_date("2006-01-02", "2024-05-06")},
        "sprig.certificate": {"text": CertificateStruct("a" * size, "b" * size)},
        "bool": {"true": True},
    }


def values_by_type(size: int) -> dict[str, dict[str, Any]]:
    """Hostile values by the Go type of a parameter."""
    result = anything(size)
    integers = {str(number): number for number in NUMBERS}
    return {
        **struct_values(size),
        "string": texts(size),
        "int": integers,
        "uint32": {name: number for name, number in integers.items() if 0 <= number < 2**32},
        "float64": {"large": 1e300, "half": 0.5},
        "interface {}": result,
        "reflect.Value": result,
        "[]interface {}": {name: value for name, value in result.items() if type(value) is list},
        "map[string]interface {}": {name: value for name, value in result.items() if type(value) is dict},
    }


def arguments(func: Func, by_type: dict[str, dict[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield arguments and their names: each value in each place, with itself and with another one in the other places."""
    signature = parse_signature(func.signature)
    types = [*signature.params, *([signature.variadic] * 2 if signature.variadic else [])]
    pools = [by_type[type_name] for type_name in types]
    known = set()
    for place, pool in enumerate(pools):
        for name in pool:
            for friend in range(2):
                names = tuple(name if at == place else _friend(other, friend, name) for at, other in enumerate(pools))
                if names not in known:
                    known.add(names)
                    yield names, [pool[key] for pool, key in zip(pools, names, strict=True)]


def _friend(pool: dict[str, Any], friend: int, name: str) -> str:
    names = list(pool)
    if friend == 0 and name in pool:
        return name
    return names[(friend * 5) % len(names)]


def calls(size: int) -> Iterator[tuple[Func, tuple[str, ...], list[Any]]]:
    """Yield every function with hostile arguments, and their names."""
    by_type = values_by_type(size)
    for name, func in FUNCTIONS.items():
        if name not in SKIPPED:
            for names, values in arguments(func, by_type):
                yield func, names, values


def called(func: Func, names: tuple[str, ...], values: list[Any]) -> Escape | None:
    """Call a function from a template; return what it took if that is too much."""
    words = " ".join(f"(index $ {place})" for place in range(len(values)))
    template = compile_template("t", f"{{{{$x := {func.name} {words}}}}}", funcs=FUNCTIONS)
    before, begun = _start_of_peak(), time.thread_time()
    try:
        template.execute(values, budget=Budget())
        answer = "done"
    except TemplateError as error:
        answer = str(error)[-200:]
    except Exception as error:  # noqa: BLE001 -- what must not happen is what is looked for
        answer = f"escaped: {type(error).__name__}: {str(error)[:100]}"
    seconds, peak = time.thread_time() - begun, (_status("VmHWM") - before) / 1024
    if seconds <= SECONDS and peak <= MEBIBYTES and not answer.startswith("escaped"):
        return None
    return Escape(func.name, names, round(seconds, 3), round(peak, 1), answer)


def _start_of_peak() -> int:
    # Linux: the peak begins anew at what is resident (proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Print the escapes, and last how many calls there were."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    size, one_in = map(int, sys.argv[1:3])
    count = 0
    for func, names, values in islice(calls(size), 0, None, one_in):
        count += 1
        escape = called(func, names, values)
        if escape is not None:
            sys.stdout.write(json.dumps(asdict(escape)) + "\n")
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
