"""``injector template render`` and ``trace``: what templates render for pods, line by line, and the fields that they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from injector.cli.commands import verbose
from injector.cli.manifests import OTHER_KINDS_OPTION, read_workloads
from injector.cli.options import FILENAME, RECURSIVE, option_group, output_format
from injector.cli.output import HEADINGS, data_text, echo, echo_colored, examples, table
from injector.cli.template.chosen import ChosenTemplates, template_options
from injector.errors import DataError, UsageError
from injector.injection.authoring.model import Read, shown, without_repeats
from injector.injection.authoring.traced import PodData, TracedTemplate
from injector.injection.result import RequestFacts
from injector.kube.escaping import escape_line
from injector.revisions.build import build

if TYPE_CHECKING:
    from injector.injection.authoring.traced import Marked
    from injector.kube.pods import Created, OtherKinds


@dataclass(frozen=True, slots=True)
class PodFiles:
    """The files of pods that a command is given."""

    filenames: tuple[str, ...]
    recursive: bool
    namespace: str | None
    others: OtherKinds

    def read(self) -> tuple[Created, ...]:
        """Read the workloads; none without files.

        Raises:
            DataError: a file or a workload cannot be read.
        """
        if not self.filenames:
            return ()
        return read_workloads(
            self.filenames, recursive=self.recursive, namespace=self.namespace, others=self.others
        ).created


pod_options: Final = option_group(
    "pods",
    PodFiles,
    FILENAME,
    RECURSIVE,
    click.option("-n", "--namespace", metavar="NAME", help="Namespace of workloads that name none. Default: default."),
    OTHER_KINDS_OPTION,
)
"""The options for files of pods, as the parameter ``pods``."""


@dataclass(frozen=True, slots=True)
class RenderedTemplate:
    """The result of a template for the pod of a workload."""

    workload: Created
    template: TracedTemplate
    result: Marked

    def data(self, **fields: Any) -> dict[str, Any]:
        """Return the workload and the template as JSON data, with more fields."""
        names = {"kind": self.workload.kind, "namespace": self.workload.namespace, "name": self.workload.name}
        return {**names, "template": self.template.name, **fields}


def rendered(templates: ChosenTemplates, workloads: tuple[Created, ...]) -> Iterator[RenderedTemplate]:
    """Render the templates for each workload, whether the policy would inject it or not.

    Raises:
        DataError: the revision is not valid, Istio refuses an annotation of a pod, or a template fails.
    """
    revision = build(templates.raw)
    known: dict[str, TracedTemplate] = {}
    for workload in workloads:
        facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace))
        try:
            data = PodData.of(revision, workload.pod, facts)
            for name in templates.of_pod(data.names):
                template = known[name] = known.get(name) or TracedTemplate(revision, name)
                yield RenderedTemplate(workload, template, template.render(data.data()))
        except DataError as error:
            error.where = ": ".join(filter(None, (str(workload), error.where)))
            raise


_RENDER_COLORS: Final = {r"^# .*": "1", r"^\S+:\d+ +\|": "36"}


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
    if not pods.filenames:
        raise UsageError("no file is given", hint="give -f FILE, -f FOLDER, or -f - for stdin")
    results = list(rendered(templates, pods.read()))
    if output == "text":
        echo_colored("".join(map(_rendered_text, results)), _RENDER_COLORS)
        return
    data = [
        each.data(lines=[{"place": f"{line.template}:{line.line}", "text": line.text} for line in each.result.lines])
        for each in results
    ]
    echo(data_text(data, output), nl=False)


def _rendered_text(each: RenderedTemplate) -> str:
    places = [escape_line(f"{line.template}:{line.line}") for line in each.result.lines]
    width = max(map(len, places), default=0)
    lines = (
        f"{place.ljust(width)} | {escape_line(line.text)}".rstrip()
        for place, line in zip(places, each.result.lines, strict=True)
    )
    head = f"# {each.workload}, template {escape_line(each.template.name)}"
    return "\n".join((head, *lines)) + "\n"


_Reads: TypeAlias = Mapping[Read, tuple[str, int]]


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
    if pods.filenames:
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
        echo_colored("\n".join(_reads_text(*each) for each in traced), HEADINGS)
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


def _reads_text(about: dict[str, Any], reads: _Reads) -> str:
    of_pod = f"{about['kind']} {about['namespace']}/{about['name']}, " if "kind" in about else ""
    head = table(("FIELD", "FIRST READ"), [(str(read), f"{name}:{line}") for read, (name, line) in reads.items()])
    title = table((f"# {of_pod}template {about['template']}",), [])
    return f"{title}{head}"
