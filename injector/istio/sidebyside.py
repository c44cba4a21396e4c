"""Rendering a Go template with harmless texts, on the ways that it takes with the real ones.

Each function is called twice where it gets a harmless text: with it, for what is printed, and with the real one, for what is decided. So
``if`` and ``range`` go as they go for the pod, JSON in an annotation is decoded, and what is pasted is harmless all the same. (A template
in Jinja2 decides by the harmless texts; it decodes the real ones.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.gotemplate import FuncError
from injector.gotemplate.budget import spend
from injector.gotemplate.builtins import eq
from injector.gotemplate.failures import Failure
from injector.gotemplate.values import Func
from injector.istio.goview import GoStruct
from injector.istio.harmless import Harmless, like, tamed
from injector.istio.template import GoTextTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.istio.template import Template

DECODERS: Final = frozenset({"b32dec", "b64dec", "decryptAES", "urlParse"})
"""Functions whose result shows nothing of what it holds in the text that they get. (JSON does: it has quotes.)"""

_META: Final = "v1.ObjectMeta"
_TEXTS: Final = ("annotations", "labels")
# They call functions of their own, which see what is printed.
_AS_THEY_ARE: Final = frozenset({"call", "render"})


def side_by_side(templates: Mapping[str, Template]) -> dict[str, Template]:
    """Return the templates as they take harmless texts; those of other engines take them as they are."""
    return {name: _rebound(template) for name, template in templates.items()}


def decodes(templates: Mapping[str, Template]) -> bool:
    """Return whether a template calls a function that makes a suspicious text of one that is not."""
    return any(
        func.name in DECODERS
        for template in templates.values()
        if isinstance(template, GoTextTemplate)
        for func in template.compiled.program.functions.values()
    )


def _rebound(template: Template) -> Template:
    if not isinstance(template, GoTextTemplate):
        return template
    rebound = template.compiled.rebound(_twice, {"EQ": _twice(Func("eq", "", eq))})
    return GoTextTemplate(rebound)


def _twice(func: Func) -> Callable[..., Any]:
    if func.name in _AS_THEY_ARE:
        return func.call

    def call(*arguments: Any) -> Any:
        if not any(map(_holds, arguments)):
            return func.call(*arguments)
        real = func.call(*[_with(value, _real) for value in arguments])
        if func.name in DECODERS:
            return tamed(real)
        try:
            shown = func.call(*[_with(value, str) for value in arguments])
        except (DataError, Failure, FuncError):
            return tamed(real)
        return _paired(shown, real)

    return call


def _real(text: Harmless) -> str:
    return text.real


def _holds(value: Any) -> bool:
    if isinstance(value, GoStruct):
        return value.go_type == _META and any(_holds(value.data.get(key)) for key in _TEXTS)
    if isinstance(value, list | dict):
        spend(len(value))
        return any(map(_holds, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Harmless)


def _with(value: Any, text: Callable[[Harmless], str]) -> Any:
    """Return an argument with the texts that a function is to get."""
    if isinstance(value, Harmless):
        return text(value)
    if not _holds(value):
        return value
    if isinstance(value, GoStruct):
        texts: dict[str, Any] = {key: _with(value.data[key], text) for key in _TEXTS if key in value.data}
        return GoStruct(value.go_type, {**value.data, **texts})
    if isinstance(value, dict):
        return like(value, {key: _with(item, text) for key, item in value.items()})
    return like(value, [_with(item, text) for item in value])


def _paired(shown: Any, real: Any) -> Any:
    """Return a result: what is decided by it is the real one, what is printed of it is what harmless texts gave."""
    if isinstance(real, str) and isinstance(shown, str):
        return Harmless.of(real, shown)
    if isinstance(real, dict) and isinstance(shown, dict) and len(real) == len(shown):
        pairs = zip(shown.items(), real.values(), strict=True)
        return like(shown, {key: _paired(item, other) for (key, item), other in pairs})
    if isinstance(real, list) and isinstance(shown, list) and len(real) == len(shown):
        return like(shown, [_paired(*pair) for pair in zip(shown, real, strict=True)])
    return tamed(real)
