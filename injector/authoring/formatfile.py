"""The canonical form of a file of templates: of one template, or of the config of a revision in place."""

from __future__ import annotations

from typing import Any, Final

from injector.authoring.formatting import format_go, format_jinja
from injector.errors import ConfigError, DataError, TemplateRenderError
from injector.gotemplate import ParseError
from injector.gotemplate.lexer import Kind, tokens
from injector.istio.config import parse_inject_config
from injector.kube.yaml import load_yaml

GO: Final = "go"
JINJA: Final = "jinja2"
"""The languages of templates."""


def format_file(name: str, text: str, engine: str) -> str:
    """Return a template, or the config of a revision, with its actions in the canonical form.

    Raises:
        DataError: a template does not parse, or the config has templates that are not block scalars.
    """
    config = config_of(text)
    if config is None:
        return _format(name, text, engine, ("{{", "}}"))
    parsed = parse_inject_config(text, where=name)
    delimiters = parsed.delimiters
    expected = {
        key: {entry: _format(entry, inner, engine, delimiters) for entry, inner in value.items()}
        if key == "templates" and isinstance(value, dict)
        else _format(key, value, engine, delimiters)
        if key == "template" and isinstance(value, str)
        else value
        for key, value in config.items()
    }
    try:
        after = _format(name, text, engine, delimiters, parses=False)
    except TemplateRenderError:
        after = ""
    if config_of(after) != expected:
        hint = "write the templates as block scalars, `sidecar: |`, without actions outside of them"
        raise ConfigError("the templates cannot be formatted in place", where=name, hint=hint)
    return after


def config_of(text: str) -> dict[str, Any] | None:
    """Return a config of a revision; None if the text is something else."""
    try:
        document = load_yaml(text)
    except DataError:
        return None
    return document if isinstance(document, dict) and {"template", "templates"} & document.keys() else None


def _format(name: str, text: str, engine: str, delimiters: tuple[str, str], *, parses: bool = True) -> str:
    """Format a template; with ``parses``, check that it parses, and to the same as before."""
    if engine == JINJA:
        from injector.istio.jinja.engine import environment_of, parse_jinja  # noqa: PLC0415 -- only its templates load Jinja2

        after, environment = format_jinja(text), environment_of({})
        is_same = not parses or parse_jinja(environment, name, text) == parse_jinja(environment, name, after)
    else:
        try:
            after = format_go(text, delimiters)
        except ParseError as error:
            where = f"{name}:{error.line}"
            raise TemplateRenderError(error.reason, where=where, hint="correct the template") from error
        is_same = _tokens(text, delimiters) == _tokens(after, delimiters)
    if not is_same:
        raise TemplateRenderError("cannot be formatted without a change", where=name, hint="report it")
    return after


def _tokens(text: str, delimiters: tuple[str, str]) -> list[tuple[Kind, str]]:
    return [(token.kind, token.text) for token in tokens(text, *delimiters) if token.kind is not Kind.SPACE]
