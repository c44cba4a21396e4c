"""The pods of files, and what the templates of a revision render for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.manifests import OTHER_KINDS_OPTION, read_workloads
from injector.cli.options import FILENAME, RECURSIVE, option_group
from injector.errors import DataError
from injector.injection.authoring.traced import PodData, TracedTemplate
from injector.injection.result import RequestFacts
from injector.revisions.build import build

if TYPE_CHECKING:
    from injector.cli.template.chosen import ChosenTemplates
    from injector.injection.authoring.marked import Marked
    from injector.kube.pods import Created, OtherKinds


@dataclass(frozen=True, slots=True)
class PodFiles:
    """The files of pods that a command is given."""

    names: tuple[str, ...]
    recursive: bool
    namespace: str | None
    others: OtherKinds

    def read(self) -> tuple[Created, ...]:
        """Read the workloads; none without files.

        Raises:
            DataError: a file or a workload cannot be read.
        """
        if not self.names:
            return ()
        return read_workloads(
            self.names, recursive=self.recursive, namespace=self.namespace, others=self.others
        ).created


def _pod_files(
    filenames: tuple[str, ...],
    recursive: bool,  # noqa: FBT001 -- a flag's value
    namespace: str | None,
    others: OtherKinds,
) -> PodFiles:
    return PodFiles(filenames, recursive, namespace, others)


pod_options: Final = option_group(
    "pods",
    _pod_files,
    FILENAME,
    RECURSIVE,
    click.option("-n", "--namespace", metavar="NAME", help="Namespace of workloads that name none. Default: default."),
    OTHER_KINDS_OPTION,
)
"""The options for files of pods, as the parameter ``pods``."""


@dataclass(frozen=True, slots=True)
class RenderedTemplate:
    """What a template renders for the pod of a workload."""

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
