"""``injector kube-inject``: manifests in, manifests with sidecars out, as ``istioctl kube-inject`` does it.

Follows ``InjectCommand`` in istioctl/pkg/kubeinject/kubeinject.go and ``IntoResourceFile`` in
pkg/kube/inject/inject.go (1.30.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.flags import FILE, GUARD, Behaviour, behaviour_flags, both_spellings, manifest_flags, old_flags
from injector.cli.inputs import changed_documents, read_manifests
from injector.cli.output import rendered, write
from injector.cli.selection import Selection, selected_revision
from injector.cli.terminal import echo, stdout_is_terminal
from injector.errors import UsageError
from injector.injection.tools.manifest import inject_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from injector.cli.flags import ManifestFlags
    from injector.istio.revision import Revision

CLUSTER_HINT: Final = "save the ConfigMap's key to a file with kubectl, and give {flag} FILE"


@click.command("kube-inject")
@manifest_flags
@click.option(
    *both_spellings("injectConfigFile"), "config", type=FILE, help="The key `config` of istio-sidecar-injector."
)
@click.option(*both_spellings("valuesFile"), "values", type=FILE, help="Its key `values`.")
@click.option(*both_spellings("meshConfigFile"), "mesh", type=FILE, help="The key `mesh` of ConfigMap istio.")
@click.option(
    *both_spellings("injectConfigMapName"), "config_map", metavar="NAME", help="Not without a cluster.", hidden=True
)
@click.option(
    *both_spellings("meshConfigMapName"), "mesh_map", metavar="NAME", help="Not without a cluster.", hidden=True
)
@click.option(*both_spellings("revisionsDir"), "revisions_dir", type=FILE, help="A directory of revisions.")
@click.option("-r", "--revision", metavar="NAME", help="The revision or tag; with --injectConfigFile its name.")
@click.option("-n", "--namespace", metavar="NAME", help="The namespace of workloads that name none.")
@GUARD
@behaviour_flags
@old_flags
@verbose
def kube_inject(  # noqa: PLR0913 -- one parameter for each flag
    *,
    manifest: ManifestFlags,
    config: Path | None,
    values: Path | None,
    mesh: Path | None,
    config_map: str | None,
    mesh_map: str | None,
    revisions_dir: Path | None,
    revision: str | None,
    namespace: str | None,
    guard: str,
    behaviour: Behaviour,
) -> None:
    """Inject the sidecar into every workload of the FILES, and print them.

    Workloads of all kinds are injected, alone or in a List; other documents pass through byte for byte. Nothing is
    printed or written when one of them cannot be injected.

    The revision is, in this order: --injectConfigFile with --valuesFile and --meshConfigFile; --revision among
    --revisions-dir; --revision among the embedded ones, by default `stable`.
    """
    _no_config_maps(config_map if config is None else None, mesh_map if mesh is None else None)
    manifests = read_manifests(manifest.names, recursive=manifest.recursive)
    chosen = selected_revision(Selection(revision, revisions_dir, config, values, mesh), behaviour)
    warnings: list[str] = []
    documents = changed_documents(manifests, _injection(chosen, namespace, guard, warnings.append))
    escape = manifest.file is None and stdout_is_terminal()
    text = rendered(documents, manifest.format, fold=chosen.behaviours.yaml_folds, escape=escape)
    for warning in warnings:
        echo(warning, err=True)
    write(text, manifest.file)


def _no_config_maps(config_map: str | None, mesh_map: str | None) -> None:
    for flag, name, instead in (
        ("--injectConfigMapName", config_map, "--injectConfigFile"),
        ("--meshConfigMapName", mesh_map, "--meshConfigFile"),
    ):
        if name is not None:
            raise UsageError(
                f"ConfigMap {name!r} cannot be read without a cluster",
                where=flag,
                hint=CLUSTER_HINT.format(flag=instead),
            )


def _injection(
    revision: Revision, namespace: str | None, guard: str, warn: Callable[[str], None]
) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
    def inject(obj: dict[str, Any]) -> dict[str, Any] | None:
        if namespace is None:
            return inject_object(revision, obj, warn=warn, guard=guard)
        injected = inject_object(revision, _placed(obj, namespace), warn=warn, guard=guard)
        return None if injected is None else _as_it_was(injected, obj)

    return inject


def _placed(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the object in ``namespace`` if it names none: what it would get on being created."""
    if isinstance(obj.get("items"), list):
        return {**obj, "items": [_placed(item, namespace) if isinstance(item, dict) else item for item in obj["items"]]}
    meta = obj.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        return obj
    if (meta or {}).get("namespace"):
        return obj
    return {**obj, "metadata": {**(meta or {}), "namespace": namespace}}


def _as_it_was(injected: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the injected object without the namespace that was only lent to it."""
    if isinstance(injected.get("items"), list):
        pairs = zip(injected["items"], given["items"], strict=True)
        return {**injected, "items": [_as_it_was(*pair) if isinstance(pair[0], dict) else pair[0] for pair in pairs]}
    if (given.get("metadata") or {}).get("namespace") or "metadata" not in injected:
        return injected
    meta = {key: value for key, value in injected["metadata"].items() if key != "namespace"}
    return {**injected, "metadata": meta}
