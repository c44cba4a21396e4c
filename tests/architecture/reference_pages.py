"""Writes docs/reference: every command with its flags, from the commands themselves, and every series, from ``injector.metrics``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from injector import metrics
from injector.cli import main
from injector.cli.commands import EXIT_CODES
from tests.architecture.documents import ROOT
from tests.reliability.long.rows import page

FOLDER: Final = ROOT / "docs" / "reference"
NOTE: Final = "Written by `scripts/reference`; do not edit.\n"
_SPELLINGS: Final = (
    "Flags of two words have two spellings: Istio's `--meshConfig` and kubectl's `--mesh-config`. Every command has `-h` and `--help`,\n"
    "and `-v` and `--verbose`, which print tracebacks with errors. They can also precede the name of the command.\n"
)
_LAID_OUT: Final = "\b\n"
_COMMON: Final = frozenset({"--help", "--verbose"})


def commands(command: click.Command, path: str = "injector") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, with their names, in the order of ``--help``."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command, info_name=path, parent=click.Context(main, **main.context_settings))
    for name in command.list_commands(context):
        subcommand = command.get_command(context, name)
        assert subcommand is not None, name
        yield from commands(subcommand, f"{path} {name}")


def cli_page() -> str:
    """Return docs/reference/cli.md."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES)
    ends = f"## Exit status\n\n| status | meaning |\n|---|---|\n{codes}"
    parts = [_command(path, command) for path, command in commands(main)]
    return "\n".join(["# Commands and flags\n", NOTE, _SPELLINGS, ends, *parts])


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path, parent=click.Context(main, **main.context_settings))
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    options = [param for param in command.params if isinstance(param, click.Option) and not _COMMON & set(param.opts)]
    rows = "".join(_row(option, context) for option in options if not option.hidden)
    table = f"\n| flag | meaning |\n|---|---|\n{rows}" if rows else ""
    idle = [option for option in options if option.hidden]
    without = (
        f"\nAccepted for scripts of older releases: {', '.join(_idle(option) for option in idle)}.\n" if idle else ""
    )
    examples = f"\n{_paragraphs(command.epilog)}" if command.epilog else ""
    return f"## {path}\n\n```text\n{usage}\n```\n\n{_paragraphs(command.help or '')}{table}{without}{examples}"


def _paragraphs(text: str) -> str:
    """Return a docstring as Markdown. Parts that click would not wrap become code blocks."""
    paragraphs = []
    for part in inspect.cleandoc(text).split("\n\n"):
        laid_out = part.startswith(_LAID_OUT)
        paragraphs.append(
            f"```text\n{part.removeprefix(_LAID_OUT)}\n```" if laid_out else _literal(" ".join(part.split()))
        )
    return "\n\n".join(paragraphs) + "\n"


def _row(option: click.Option, context: click.Context) -> str:
    spellings = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" {_escaped(option.make_metavar(context))}"
    extra = option.get_help_extra(context)
    notes = [
        f"Default: `{extra['default']}`." if "default" in extra else "",
        "Required." if "required" in extra else "",
        "Repeatable." if option.multiple and "Repeatable" not in (option.help or "") else "",
        f"Variable `{extra['envvars'][0]}`." if extra.get("envvars") else "",
    ]
    meaning = " ".join(part for part in (_literal(option.help or ""), *notes) if part)
    return f"| {spellings}{metavar} | {_escaped(meaning)} |\n"


def _idle(option: click.Option) -> str:
    return " ".join(f"`{flag}`" for flag in option.opts)


def _literal(text: str) -> str:
    """Return a sentence with its angle brackets as code."""
    return re.sub(r"(?<!`)<([^>`]+)>(?!`)", r"`<\1>`", text)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def series() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the help text and the labels of each metric, by name."""
    registry = CollectorRegistry()
    metrics.Metrics(registry)
    return {
        _exposed_name(family): (family.documentation, _labels(family) or _labels(collector))
        for collector in registry._collector_to_names
        for family in collector.collect()
    }


def _labels(source: Collector | Metric) -> tuple[str, ...]:
    """Return the labels that a family of a collector has, or a metric of prometheus-client."""
    labels: tuple[str, ...] = getattr(source, "_labelnames", ())
    return labels


def _exposed_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def exposed() -> dict[str, str]:
    """Return the type of each series that a server exposes, by the name that it has there."""
    registry = CollectorRegistry()
    metrics.Metrics(registry)
    return {_exposed_name(collector): collector.type for collector in registry.collect()}


def metrics_page() -> str:
    """Return docs/reference/metrics.md."""
    families = series()
    rows = "".join(
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in families[name][1]) or '-'} | {_escaped(families[name][0])} |\n"
        for name, kind in sorted(exposed().items())
    )
    buckets = ", ".join(f"{bound:g}" for bound in metrics.BUCKETS)
    return (
        f"# Metrics\n\n{NOTE}\nThe injector exposes them on `/metrics` of `--ops-port`. For each `revision` and `tag`, requests are the "
        "sum of successes, failures and skips. The usual\n`process_*` series are exposed too. `tag` is empty if the path names a revision."
        f" `revision` is `{metrics.UNKNOWN_REVISION}` for unknown names. Alerts: [operations](../operations.md#metrics-and-alerts).\n\n"
        f"| series | type | labels | meaning |\n|---|---|---|---|\n{rows}\n"
        f"Buckets of the histogram, in seconds: {buckets}.\n"
    )


PAGES: Final[dict[Path, Callable[[], str]]] = {
    FOLDER / "cli.md": cli_page,
    FOLDER / "metrics.md": metrics_page,
    ROOT / "docs" / "reliability.md": lambda: page(NOTE),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, written in PAGES.items():
        path.write_text(written())
