"""Any text as YAML, and any JSON data written as YAML.

An answer is JSON data or a ``ManifestError``. A bug is any other exception, and data that is written so that it reads back as
other data. Entries of the text are changed too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from injector.errors import ManifestError
from injector.kube.yaml import dump_yaml, load_yaml, split_documents
from injector.kube.yaml.write import with_entry, with_values, without_entry
from tests.fuzz.draws import DIGITS, LONG, Draws
from tests.fuzz.jsondata import close, json_data
from tests.fuzz.target import Target, recorded


def run(data: bytes) -> None:
    """Try a text, or data."""
    draws = Draws(data)
    if draws.getrandbits(1):
        value, fold = json_data(draws), bool(draws.getrandbits(1))
        written(value, fold=fold)
        written({"a": {"b": {"c": {"d": [value, value]}}}}, fold=fold)
        return
    text = draws.rest().replace(LONG.encode(), DIGITS.encode())
    with suppress(ManifestError):
        for document in split_documents(text.decode("utf-8", "replace")):
            load_yaml(document.text, line=document.line)
    try:
        value = load_yaml(text)
    except ManifestError:
        return
    if not has_merge_key(value):
        written(value, fold=True)
    if isinstance(value, dict):
        edit(text.decode("utf-8", "replace"), [*value][:2])


def edit(text: str, keys: list[str]) -> None:
    """Change and remove entries. Who edits a text reads the result again and compares, so that only an error is a bug."""
    for key in (*keys, "new"):
        with_entry(text, key, "x")
        without_entry(text, key)
        with_values(text, {(key,): ["x"]})


def has_merge_key(value: Any) -> bool:
    """Whether data has the key ``<<``, which Go writes without quotes and then takes for a merge."""
    if isinstance(value, dict):
        return "<<" in value or any(map(has_merge_key, value.values()))
    return isinstance(value, list) and any(map(has_merge_key, value))


def written(data: Any, *, fold: bool) -> None:
    """Write data, and read it back."""
    text = dump_yaml(data, fold=fold)
    assert close(load_yaml(text), data), text


def seeds() -> Iterator[bytes]:
    """Texts that Go has read, and those that it wrote."""
    for case in recorded("kube/corpus/yaml_read.json"):
        yield b"\x00" + case["input"].encode("utf-8", "surrogateescape")
    for case in recorded("kube/corpus/yaml_write.json"):
        yield b"\x00" + case.get("yaml", "").encode("utf-8", "surrogateescape")


TARGET = Target(
    run=run,
    modules=("kube/yaml/read.py", "kube/yaml/write.py"),
    seeds=seeds,
    words=(
        *("- ", ": ", "? ", "&a ", "*a", "<<: ", "!!binary ", "!!int ", "!!float ", "!!bool ", "!!null "),
        *("!!timestamp ", "!x ", "|\n", ">-\n", "|2+\n", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! tag:x,2002:\n"),
        *("{", "}", "[", "]", ", ", "# c", "'", '"', "yes", "no", "~", "null", "0x1f", "0b1", "0o7", "017", "1_000"),
        *("1e3", ".inf", "-.inf", ".nan", "1:30", "2001-01-02", "2001-12-14t21:59:43.10-05:00", "\\x41", "\\u263a"),
        *("\\/", "\ufeff", "\u2028", "  ", "\t", "\n  ", LONG),
    ),
)
