"""Ways out of a template that are known of Jinja2 and of Go, put together from parts, and what would show that one leads out.

An attempt is inert if it is refused, or if what it renders shows nothing of Python: no object, no class, none of the canaries that lie
where only Python's own objects lead to. An audit hook sees what a way out would be good for: files, processes, sockets, modules, frames.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

from injector.errors import DataError
from injector.istio.behaviours import NEWEST
from injector.istio.goview import GoStruct
from injector.istio.jinja.engine import compile_jinja_templates
from injector.istio.template import Template, TemplateData, compile_go_template, go_functions
from tests.cases import read_cases
from tests.factories import make_pod, make_template_data

CANARY: Final = "canary-that-no-template-may-show"
PYTHON: Final = re.compile(
    rf"{CANARY}|<(?:class|function|module|bound|built-in|generator|code|frame|property|slot|method)\b|\bobject at 0x|<[\w.]+ object|"
    r"__\w+__|Traceback|site-packages"
)
"""What only Python prints; an attempt's own text is taken out before one looks for it."""

_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
ATTRIBUTES: list[str] = _DATA["attributes"]
BASES: list[str] = _DATA["bases"]
FORMS: list[str] = _DATA["forms"]
PUBLISHED: list[str] = _DATA["published"]
GO_NAMES: list[str] = _DATA["go_names"]
GO_BASES: list[str] = _DATA["go_bases"]
GO_FORMS: list[str] = _DATA["go_forms"]
GO_PUBLISHED: list[str] = _DATA["go_published"]


class Bait(str):
    """A text with more to it: what Python finds on it, and no template."""

    __slots__ = ()
    go_type: Final = "string"

    @property
    def secret(self) -> str:
        """What is not to be reached."""
        return CANARY

    def reach(self) -> str:
        """Return what is not to be reached."""
        return CANARY


def data() -> TemplateData:
    """Template data with bait in it."""
    pod = make_pod(annotations={"note": "n"}, labels={"app": "cart"})
    struct = GoStruct("v1.TypeMeta", {"kind": "Deployment", "apiVersion": "apps/v1"})
    return make_template_data(pod, Values={"bait": Bait("bait"), "text": "x"}, Struct=struct)


def jinja_attempts() -> Iterator[str]:
    """Every attempt in Jinja2."""
    yield from PUBLISHED
    for form, base, name in product(FORMS, BASES, ATTRIBUTES):
        yield form.format(base=base, name=name)


def go_attempts() -> Iterator[str]:
    """Every attempt in Go's language."""
    yield from GO_PUBLISHED
    for form, base, name in product(GO_FORMS, GO_BASES, GO_NAMES):
        yield form.format(base=base, name=name)


def jinja_template(text: str) -> Template:
    """A template in Jinja2, with another one to import."""
    return compile_jinja_templates({"sidecar": text, "lib": "{% macro m() %}{% endmacro %}"}, NEWEST)["sidecar"]


def go_template(text: str) -> Template:
    """A template of Go, with all functions of the newest minor."""
    return compile_go_template("sidecar", text, _FUNCTIONS, ("{{", "}}"))


_FUNCTIONS: Final = go_functions(NEWEST, {})


def outcome(template: Template | None, text: str) -> str:
    """Return what an attempt comes to: ``refused``, ``inert``, or what it reached; what a library did when it was loaded, it does once."""
    if template is None:
        return "refused"
    result = _outcome(template, text)
    return _outcome(template, text) if result.startswith("reached") else result


def _outcome(template: Template, text: str) -> str:
    try:
        with watched() as events:
            rendered = template.render(data())
    except DataError as error:
        rendered = str(error)
        return f"reached {events}" if events else f"shown: {rendered}" if _shows(rendered, text) else "refused"
    if events:
        return f"reached {events}"
    return f"shown: {rendered[:200]}" if _shows(rendered, text) else "inert"


def compiled(compile_: Any, text: str) -> Template | None:
    """A template, None where it does not parse."""
    try:
        template: Template = compile_(text)
    except DataError:
        return None
    return template


def _shows(rendered: str, text: str) -> bool:
    for name in sorted({*ATTRIBUTES, *GO_NAMES, text}, key=len, reverse=True):
        rendered = rendered.replace(name, "")
    return PYTHON.search(rendered) is not None


_WATCHED: Final = (
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "exec",
    "compile",
    "import",
    "ctypes.",
    "sys._getframe",
    "code.",
    "shutil.",
)
_events: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _events is not None and event.startswith(_WATCHED) and not _own(event, arguments):
        _events.append(event)


def _own(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether it is what functions do by themselves: load the library they are made of, or look for a time zone by its name."""
    return event == "import" or (event in ("open", "exec", "compile") and _of_library(str(arguments[0])))


def _of_library(place: str) -> bool:
    return "python" in place or "zoneinfo" in place or "<code object" in place or "site-packages" in place


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list of what is done meanwhile that no template should do; the environment has a canary too."""
    global _events  # noqa: PLW0603 -- an audit hook stays for good
    results: list[str] = []
    os.environ["CANARY"] = CANARY
    _events = results
    try:
        yield results
    finally:
        _events = None
        del os.environ["CANARY"]
