"""``injector template render``: what templates render for pods, with the place in the template of each line."""

from __future__ import annotations

from typing import Final

import click

from injector.cli.commands import verbose
from injector.cli.options import output_format
from injector.cli.output import data_text, echo, echo_colored, examples
from injector.cli.template.chosen import ChosenTemplates, template_options
from injector.cli.template.pods import PodFiles, RenderedTemplate, pod_options, rendered
from injector.errors import UsageError
from injector.kube.escaping import escape_line

_COLORS: Final = {r"^# .*": "1", r"^\S+:\d+ +\|": "36"}


@click.command(
    "render",
    epilog=examples(
        "template render -f docs/samples/hello.yaml",
        "template render -r canary -f docs/samples/hello.yaml -o json",
    ),
)
@template_options
@pod_options
@output_format("text", "json", "yaml")
@verbose
def render(*, templates: ChosenTemplates, pods: PodFiles, output: str) -> None:
    """Print what templates render, with the place of each line.

    The place is the line of the template that a line of the result comes from. The templates are those that a pod gets, or the
    TEMPLATE files, or those that --template names. Each renders a part of the pod, which
    `injector kube-inject` merges over the pod. A line that comes from several lines of the template has the place of its first text.
    """
    if not pods.names:
        raise UsageError("no file is given", hint="give -f FILE, -f FOLDER, or -f - for stdin")
    results = list(rendered(templates, pods.read()))
    if output == "text":
        echo_colored("".join(map(_as_text, results)), _COLORS)
        return
    data = [
        each.data(lines=[{"place": f"{line.template}:{line.line}", "text": line.text} for line in each.result.lines])
        for each in results
    ]
    echo(data_text(data, output), nl=False)


def _as_text(each: RenderedTemplate) -> str:
    places = [escape_line(f"{line.template}:{line.line}") for line in each.result.lines]
    width = max(map(len, places), default=0)
    lines = (
        f"{place.ljust(width)} | {escape_line(line.text)}".rstrip()
        for place, line in zip(places, each.result.lines, strict=True)
    )
    head = f"# {each.workload}, template {escape_line(each.template.name)}"
    return "\n".join((head, *lines)) + "\n"
