"""``injector template trace``: the fields of the pod, the values and the mesh config that templates read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from injector.cli.commands import verbose
from injector.cli.options import output_format
from injector.cli.output import HEADINGS, data_text, echo, echo_colored, examples, table
from injector.cli.template.chosen import ChosenTemplates, template_options
from injector.cli.template.pods import PodFiles, pod_options, rendered
from injector.injection.authoring.model import Read, shown, without_repeats
from injector.injection.authoring.traced import TracedTemplate
from injector.revisions.build import build

Reads = Mapping[Read, tuple[str, int]]


@click.command(
    "trace",
    epilog=examples(
        "template trace",
        "template trace -f docs/samples/hello.yaml",
        "template trace --revision canary -t sidecar -o json",
    ),
)
@template_options
@pod_options
@output_format("text", "json", "yaml")
@verbose
def trace(*, templates: ChosenTemplates, pods: PodFiles, output: str) -> None:
    """Print the fields that templates read.

    They are fields of the pod, the values and the mesh config, each with the first line that reads it. Without -f these are the reads
    of all branches, and with it those of the branches that run for a pod. No other field changes the
    output. A field can be listed though it does not change the output. `[*]` stands for every item of a list or map.
    """
    if pods.names:
        traced = [
            (each.data(), without_repeats(each.template.reads(each.result)))
            for each in rendered(templates, pods.read())
        ]
    else:
        revision = build(templates.raw)
        traced = [
            ({"template": name}, without_repeats(TracedTemplate(revision, name).reads())) for name in templates.names
        ]
    if output == "text":
        echo_colored("\n".join(_as_text(*each) for each in traced), HEADINGS)
        return
    data = [
        {
            **about,
            "reads": [
                {"field": shown(read.path), "whole": read.deep, "place": f"{name}:{line}"}
                for read, (name, line) in reads.items()
            ],
        }
        for about, reads in traced
    ]
    echo(data_text(data, output), nl=False)


def _as_text(about: dict[str, Any], reads: Reads) -> str:
    of_pod = f"{about['kind']} {about['namespace']}/{about['name']}, " if "kind" in about else ""
    head = table(("FIELD", "FIRST READ"), [(str(read), f"{name}:{line}") for read, (name, line) in reads.items()])
    title = table((f"# {of_pod}template {about['template']}",), [])
    return f"{title}{head}"
