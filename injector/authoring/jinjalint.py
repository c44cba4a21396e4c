"""The mistakes of Jinja2 templates; see ``lint`` for the rules."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from jinja2 import nodes as j

from injector.authoring.formatting import jinja_actions
from injector.authoring.jinjaflow import NAMES, JinjaFlow, follow
from injector.authoring.lint import REPEATED, Finding, MaskedText, Text, always, missing_value, unquoted_finding
from injector.authoring.model import Model
from injector.errors import TemplateRenderError
from injector.istio.jinja.engine import environment_of, parse_jinja
from injector.istio.jinja.filters import known_filters, known_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.istio.behaviours import Minor


def lint_jinja(name: str, texts: Mapping[str, str], minor: Minor, *, values: Any) -> list[Finding]:
    """Return the mistakes of the Jinja2 template ``name``, in order. ``texts`` has all templates of its config.

    With None for the values, it is not checked whether they have what it reads.
    """
    text, environment = Text(name, texts[name]), environment_of(texts)
    trees: dict[str, j.Template] = {}
    for template_name, source in texts.items():
        try:
            trees[template_name] = parse_jinja(environment, template_name, source)
        except TemplateRenderError as error:
            if template_name == name:
                line = getattr(error.__cause__, "lineno", 1)
                return [text.on_line(line, "", "syntax", error.what, "correct the template")]
    tree = trees[name]
    try:
        flow = follow(Model(minor), trees, name)
    except RecursionError:
        return [text.on_line(1, "", "syntax", "nested too deeply", "simplify the template")]
    findings = [
        *_unknown(text, tree),
        *_find_unquoted(text, tree, flow),
        *(_missing_values(text, flow, values) if values is not None else ()),
        *_unreachable(text, tree, flow, texts),
    ]
    return sorted(set(findings))


def _unknown(text: Text, tree: j.Template) -> Iterator[Finding]:
    """Yield the names, filters and tests that do not exist."""
    imported = (imported_name for node in tree.find_all(j.FromImport) for imported_name in node.names)
    declared = {
        *NAMES,
        *(node.name for node in tree.find_all(j.Name) if node.ctx != "load"),
        *(node.name for node in tree.find_all(j.Macro)),
        *(imported_name if isinstance(imported_name, str) else imported_name[1] for imported_name in imported),
        *(node.target for node in tree.find_all(j.Import)),
    }
    for node in tree.find_all(j.Name):
        if node.name not in declared:
            what, hint = f"templates have no name {node.name}", "see docs/jinja-revisions.md for the names"
            yield text.on_line(node.lineno, node.name, "field", what, hint)
    kinds: tuple[tuple[type[j.Node], str, Any], ...] = (
        (j.Filter, "filter", known_filters()),
        (j.Test, "test", known_tests()),
    )
    for kind, label, known in kinds:
        for usage in tree.find_all(kind):
            name = usage.name  # type: ignore[attr-defined]  # filters and tests have one
            if name not in known:
                what, hint = f"templates have no {label} {name}", f"see docs/jinja-revisions.md for the {label}s"
                yield text.on_line(usage.lineno, name, "function", what, hint)


def _find_unquoted(text: Text, tree: j.Template, flow: JinjaFlow) -> Iterator[Finding]:
    parts, done, actions = [], 0, []
    for action in jinja_actions(text.text):
        prints = action.opening.startswith("{{")
        blank = re.sub(r"[^\n]", "\0" if prints else " ", text.text[action.start : action.end])
        parts += [text.text[done : action.start], blank]
        done = action.end
        actions += [action] if prints else []
    masked = MaskedText("".join([*parts, text.text[done:]]))
    printed = [expression for expression in _output_expressions(tree) if not isinstance(expression, j.TemplateData)]
    for node, action in zip(printed, actions, strict=False):
        taints = flow.prints.get(id(node), frozenset())
        if taints:
            at = action.start + len(action.opening)
            inside = text.text[at : action.end]
            at += len(inside) - len(inside.lstrip())
            yield from unquoted_finding(text, at, sorted(taints), masked.context(action.start))


def _output_expressions(node: j.Node) -> Iterator[j.Node]:
    """Yield the parts of all texts in the order of the source."""
    if isinstance(node, j.Output):
        yield from node.nodes
        return
    for child in node.iter_child_nodes():
        yield from _output_expressions(child)


def _missing_values(text: Text, flow: JinjaFlow, values: Any) -> Iterator[Finding]:
    for path, (template, line) in flow.values.items():
        if template != text.name or any(path[: len(tolerated)] == tolerated for tolerated in flow.tolerated):
            continue
        fault = missing_value(values, path, prints=True)
        if fault is not None:
            index, what, hint = fault
            what = what.replace("so this prints <no value>", "so this fails")
            yield text.on_line(line, path[index], "value", what, hint)


def _unreachable(text: Text, tree: j.Template, flow: JinjaFlow, texts: Mapping[str, str]) -> Iterator[Finding]:
    words = Counter(word for source in texts.values() for word in re.findall(r"\w+", source))
    for macro in tree.find_all(j.Macro):
        if macro.name not in flow.called and words[macro.name] < 2:  # noqa: PLR2004
            what, hint = f"the macro {macro.name} is never called", "call it, or delete it"
            yield text.on_line(macro.lineno, macro.name, "unreachable", what, hint)
    for node, constant in flow.constants.values():
        yield text.on_line(node.lineno, "", "unreachable", *always(constant))
    for chain in tree.find_all(j.If):
        tests = {repr(chain.test)}
        for branch in chain.elif_:
            if repr(branch.test) in tests:
                yield text.on_line(branch.lineno, "", "unreachable", *REPEATED)
            tests.add(repr(branch.test))
