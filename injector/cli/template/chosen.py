"""The templates of a command: those of a revision, or files to use in their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.kube_inject import RevisionOptions, revision_options
from injector.cli.options import option_group
from injector.errors import AnnotationError, ConfigError, UsageError
from injector.kube.serial import dump_json
from injector.kube.yaml import load_yaml
from injector.revisions.build import Texts, parse_texts
from injector.revisions.files import required_text

if TYPE_CHECKING:
    from injector.revisions.source import RawRevision


@dataclass(frozen=True, slots=True)
class ChosenTemplates:
    """A revision whose templates may have mistakes, and the names of those that a command is about."""

    raw: RawRevision
    texts: Texts
    names: tuple[str, ...]
    are_given: bool

    def of_pod(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the templates for a pod: those that the command line names, or else those that the pod gets, which are ``names``.

        Raises:
            AnnotationError: the pod asks for a template that the revision does not have.
        """
        if self.are_given:
            return self.names
        unknown = next((name for name in names if name not in self.texts.config.templates), None)
        if unknown is not None:
            known = ", ".join(sorted(self.texts.config.templates))
            raise AnnotationError(f"requested template {unknown[:80]!r} not found", hint=f"known are {known}")
        return names


def _chosen(files: tuple[str, ...], named: tuple[str, ...], chosen: RevisionOptions) -> ChosenTemplates:
    """Read the revision, with the files as its default templates if there are any.

    Raises:
        UsageError: the revision has no template of a name.
        DataError: a file cannot be read, or the revision is not valid.
    """
    raw = chosen.read()
    if files:
        raw = _with_files(raw, files)
    texts = parse_texts(raw)
    known = texts.config.templates
    unknown = next((name for name in named if name not in known), None)
    if unknown is not None:
        what = f"the revision {raw.name} has no template {unknown[:80]!r}"
        raise UsageError(what, where="--template", hint=f"known are {', '.join(sorted(known))}")
    return ChosenTemplates(raw, texts, named or files or tuple(known), bool(named or files))


def _with_files(raw: RawRevision, files: tuple[str, ...]) -> RawRevision:
    found: dict[str, str] = {name: required_text(Path(name)) for name in files}
    config = load_yaml(raw.config, where=f"{raw.origin}: config")
    if not isinstance(config, dict):
        raise ConfigError("`config` is not a mapping", where=raw.origin, hint="give the key `config` unchanged")
    changed: dict[str, Any] = {**config, "defaultTemplates": list(files), "templates": {**_templates(config), **found}}
    return replace(raw, config=dump_json(changed).decode())


def _templates(config: dict[str, Any]) -> dict[str, Any]:
    templates = config.get("templates")
    if isinstance(templates, dict):
        return templates
    raise ConfigError(
        "a template of Istio 1.0 to 1.8 cannot be replaced by a file",
        where="[TEMPLATE]...",
        hint="give the whole config by --injectConfigFile",
    )


template_options: Final = option_group(
    "templates",
    _chosen,
    click.argument("files", metavar="[TEMPLATE]...", nargs=-1),
    click.option("-t", "--template", "named", metavar="NAME", multiple=True, help="Only this template. Repeatable."),
    revision_options,
)
"""Template files, ``--template`` and the options of a revision, as the parameter ``templates``."""
