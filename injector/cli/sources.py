"""Where commands find revisions and tags: a directory, a cluster, or the embedded examples.

Every command that needs revisions uses the first of these: explicit files, ``--revisions-dir`` or else its variable, the cluster of the
current context. Without one it ends with exit code 78. The embedded examples are used only if ``--embedded`` is given.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from injector.cli.commands import EX_FAILED
from injector.cli.options import (
    FILE,
    NODE_VERSION,
    PRECEDENCE_FLAG,
    REVISION_FLAG,
    both_spellings,
    option_group,
    refuse_unused,
    validator,
    was_given,
)
from injector.cli.output import echo, one_line, print_note
from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import ConfigError, InjectorError, NotConfiguredError, UsageError, no_source
from injector.fleet.sources import (
    IN_DIRECTORY,
    REVISIONS_DIR_VARIABLE,
    RevisionList,
    RevisionSources,
    directory_revisions,
)
from injector.istio.labels import ISTIO_NAMESPACE, NAMESPACE, PRECEDENCES
from injector.istio.webhooks.configurations import Endpoint
from injector.kube.escaping import escape_line
from injector.kube.selectors import NAMESPACE_HINT, is_dns_label
from injector.revisions.directory import EMBEDDED
from injector.revisions.names import check_name
from injector.revisions.source import Overrides, build, overridden

if TYPE_CHECKING:
    from injector.fleet.files import ReaderSession
    from injector.fleet.view import ReadRevisions

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


def check_variable(name: str) -> None:
    """Raise NotConfiguredError if the variable of a path is empty: it probably lost its value."""
    if os.environ.get(name) == "":
        raise NotConfiguredError("the variable is empty", where=name, hint="set it to a path, or unset it")


def select_directory(revisions_dir: Path | None, *, embedded: bool = False, is_explicit: bool = False) -> Path | None:
    """Return the directory of the revisions; None if none is chosen.

    The variable does not count if the source ``is_explicit`` otherwise.

    Raises:
        UsageError: two flags contradict each other.
        NotConfiguredError: the variable is empty.
    """
    if embedded and was_given("revisions_dir"):
        raise UsageError("--embedded and --revisions-dir exclude each other", hint="give one of the two")
    if embedded:
        return EMBEDDED
    if revisions_dir is None and not is_explicit:
        check_variable(REVISIONS_DIR_VARIABLE)
    return revisions_dir


def revisions_dir(default: str, *, has_embedded: bool = True) -> Callable[[F], F]:
    """Return the options ``--revisions-dir`` and ``--embedded``, as the parameter ``revisions_dir``.

    ``default`` says what the command uses without them. A command that changes revisions or tags does not have ``--embedded``.
    """

    def directory(revisions_dir: Path | None, *, embedded: bool = False) -> Path | None:
        return select_directory(revisions_dir, embedded=embedded, is_explicit=was_given("config"))

    option = click.option(
        *reversed(both_spellings("revisionsDir")),
        "revisions_dir",
        type=FILE,
        envvar=REVISIONS_DIR_VARIABLE,
        show_envvar=True,
        help=f"Directory of revisions and their tags.yaml. Default: {default}.",
    )
    examples = click.option("--embedded", is_flag=True, help="Use the two embedded examples, `stable` and `canary`.")
    return option_group("revisions_dir", directory, option, *((examples,) if has_embedded else ()))


def directory_source() -> str:
    """Return the flag or the variable that chooses the directory of revisions."""
    flags = {"embedded": "--embedded", "revisions_dir": "--revisions-dir"}
    return next((flag for name, flag in flags.items() if was_given(name)), "INJECTOR_REVISIONS_DIR")


_NAMESPACE: Final = validator(is_dns_label, "a valid namespace", NAMESPACE_HINT)


def namespace_option(text: str) -> Callable[[F], F]:
    """Return the option ``--namespace``, whose value is checked. ``text`` is its help."""
    return click.option("-n", "--namespace", metavar="NAME", callback=_NAMESPACE, help=text)


# RFC 1035 label, as Kubernetes checks the name of a Service.
_SERVICE: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

SERVICE_OPTION: Final = click.option(
    "--service",
    metavar="NAME",
    default=Endpoint().service,
    show_default=True,
    callback=validator(
        lambda name: _SERVICE.fullmatch(name) is not None,
        "a valid Service name",
        "use at most 63 lower-case letters, digits and `-`, beginning with a letter",
    ),
    help="Name of the injector's Service.",
)
SERVICE_NAMESPACE_OPTION: Final = click.option(
    "--service-namespace",
    "namespace",
    metavar="NAMESPACE",
    default=Endpoint().namespace,
    show_default=True,
    callback=_NAMESPACE,
    help="Namespace of the Service.",
)
"""The parameter ``namespace``, checked."""
ISTIO_NAMESPACE_OPTION: Final = click.option(
    "-i",
    "--istio-namespace",
    "--istioNamespace",
    metavar="NAMESPACE",
    default=ISTIO_NAMESPACE,
    show_default=True,
    callback=_NAMESPACE,
    help="Istio's root namespace. The names of webhooks contain it if it is not the default.",
)
"""The parameter ``istio_namespace``, checked."""


def _kubeconfig(paths: tuple[Path, ...], context_name: str | None) -> Kubeconfig:
    """Find the API server as kubectl and istioctl do.

    The files are those of ``--kubeconfig``, or else of ``KUBECONFIG``, or else ``~/.kube/config``. Without any, it is the service
    account of the pod that the command runs in. As in kubectl (ClientConfigLoadingRules in k8s.io/client-go/tools/clientcmd/loader.go),
    files of ``KUBECONFIG`` that do not exist, and empty names, as in ``:FILE``, are ignored. A file of ``--kubeconfig`` must exist.
    """
    if was_given("paths"):
        if Path() in paths:
            what, hint = "the name is empty or a folder", "check the variable that it comes from"
            raise UsageError(what, where="--kubeconfig", hint=hint)
        return Kubeconfig(paths, context_name)
    # Not Path.expanduser, which raises if the user has no home directory, as in many containers.
    known = paths or (Path(os.path.expanduser("~/.kube/config")),)  # noqa: PTH111
    known = tuple(dict.fromkeys(path for path in known if path != Path()))
    existing = tuple(path for path in known if not _is_missing(path))
    return Kubeconfig(existing, context_name, missing=() if existing or not paths else known)


def _is_missing(path: Path) -> bool:
    """Return whether there is no such file. A file that cannot be looked at is not missing."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def complete_contexts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a context of the kubeconfig."""
    with ctx.scope(cleanup=False), suppress(InjectorError):
        return [name for name in _kubeconfig(ctx.params["paths"], None).contexts() if name.startswith(incomplete)]
    return []


_KUBECONFIG_OPTION: Final = click.option(
    "-c",
    "--kubeconfig",
    "paths",
    multiple=True,
    type=click.Path(path_type=Path),
    envvar="KUBECONFIG",
    metavar="FILE",
    help="Kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.",
)


CLUSTER_PARAMETERS: Final = ("paths", "context_name", "context_names", "istio_namespace", "config_map", "mesh_map")
"""The parameters of flags that say how to reach a cluster, and where it has revisions."""


def _context_option(parameter: str, more: str = "", **settings: Any) -> Callable[[F], F]:
    text = f"Context of the kubeconfig. Default: the current one.{more}"
    return click.option("--context", parameter, metavar="NAME", shell_complete=complete_contexts, help=text, **settings)


kubeconfig_options: Final = option_group("kubeconfig", _kubeconfig, _KUBECONFIG_OPTION, _context_option("context_name"))
"""``--kubeconfig`` and ``--context``, as the parameter ``kubeconfig``."""


def _kubeconfigs(paths: tuple[Path, ...], context_names: tuple[str, ...]) -> tuple[Kubeconfig, ...]:
    return tuple(_kubeconfig(paths, name) for name in dict.fromkeys(context_names)) or (_kubeconfig(paths, None),)


kubeconfigs_options: Final = option_group(
    "kubeconfigs",
    _kubeconfigs,
    _KUBECONFIG_OPTION,
    _context_option("context_names", " Repeatable, for several clusters.", multiple=True),
)
"""``--kubeconfig`` and a repeatable ``--context``, as the parameter ``kubeconfigs``, which has at least one."""


@dataclass(frozen=True, slots=True)
class ByCluster(Generic[T]):
    """The results of a command by the context of the cluster, and the errors of the clusters that failed.

    If the command is for one cluster, its context is the empty string, and the output does not name it.
    """

    results: Mapping[str, T]
    errors: Mapping[str, InjectorError]

    def data(self, data_of: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
        """Return JSON data: that of the only cluster, or ``clusters`` with the data or the ``error`` of each."""
        if "" in self.results:
            return data_of(self.results[""])
        data = [{"cluster": name, **data_of(result)} for name, result in self.results.items()]
        failed = [{"cluster": name, "error": str(error)} for name, error in self.errors.items()]
        return {"clusters": data + failed}

    def columns(self, *columns: str) -> tuple[str, ...]:
        """Return the columns of a table, with one for the cluster if there are several."""
        return columns if "" in self.results else ("CLUSTER", *columns)

    def rows(self, rows_of: Callable[[T], Iterable[Sequence[str]]]) -> list[tuple[str, ...]]:
        """Return the rows of all clusters in the columns of ``columns``."""
        return [(*((name,) if name else ()), *row) for name, result in self.results.items() for row in rows_of(result)]

    def sections(self, text_of: Callable[[T], str]) -> str:
        """Return the text of the only cluster, or that of each below its name."""
        if "" in self.results:
            return text_of(self.results[""])
        return "\n".join(
            escape_line(f"cluster {name}") + f"\n\n{text_of(result)}" for name, result in self.results.items()
        )

    def note(self, kind: str, notes_of: Callable[[T], Iterable[object]]) -> None:
        """Print the notes or warnings of each cluster on stderr."""
        for name, result in self.results.items():
            for note in notes_of(result):
                echo(f"{kind}: {name}{': ' if name else ''}{note}", err=True)

    def exit(self, *, has_findings: bool) -> None:
        """End the command: with the exit code of a cluster that failed, or 1 if something was found."""
        failed = next((error.exit_code for error in self.errors.values()), 0)
        if failed or has_findings:
            click.get_current_context().exit(failed or EX_FAILED)


def on_each(kubeconfigs: Sequence[Kubeconfig], work: Callable[[Kubeconfig], T]) -> ByCluster[T]:
    """Run ``work`` for each cluster in turn. The InjectorError of one of several is printed, and that of the only one is raised."""
    if len(kubeconfigs) == 1:
        return ByCluster({"": work(kubeconfigs[0])}, {})
    results, errors = dict[str, T](), dict[str, InjectorError]()
    for kubeconfig in kubeconfigs:
        name = kubeconfig.context or ""
        try:
            results[name] = work(kubeconfig)
        except InjectorError as error:
            errors[name] = error
            echo(f"error: {name}: {one_line(str(error))}", err=True)
    return ByCluster(results, errors)


def only_one(kubeconfigs: Sequence[Kubeconfig], use: str) -> Kubeconfig:
    """Return the only cluster. Raises UsageError if there are several; ``use`` says what they cannot be used for."""
    if len(kubeconfigs) > 1:
        raise UsageError(f"several --context cannot be used {use}", hint="give one")
    return kubeconfigs[0]


def source_options(default: str, *others: Callable[[F], F]) -> Callable[[F], F]:
    """Return the options to find revisions, as the parameter ``sources``, and others.

    ``default`` says what the command uses without a directory. ``NODE_VERSION`` may be one of the others.
    """

    def sources(
        revisions_dir: Path | None, istio_namespace: str, node_version: tuple[str, ...] = ()
    ) -> RevisionSources:
        return RevisionSources(revisions_dir, istio_namespace, Overrides(node_versions=node_version))

    return option_group("sources", sources, revisions_dir(default), ISTIO_NAMESPACE_OPTION, *others)


cluster_options, clusters_options = (
    source_options("the revisions in the cluster", options, NODE_VERSION)
    for options in (kubeconfig_options, kubeconfigs_options)
)
"""The options to find revisions, as ``sources``, and to reach a cluster, as ``kubeconfig``, or several, as ``kubeconfigs``."""

revision_source_options: Final = source_options("the revisions in the cluster", kubeconfig_options)
"""The options to find revisions, as the parameters ``sources`` and ``kubeconfig``."""


def check_cluster(kubeconfig: Kubeconfig) -> None:
    """Raise NotConfiguredError if no cluster is configured, for a command that found its revisions in no other source."""
    if not was_given("paths") and not kubeconfig.is_configured():
        files = ("--injectConfigFile FILE",) if "config" in click.get_current_context().params else ()
        raise no_source(*files, IN_DIRECTORY, "a cluster (--kubeconfig, KUBECONFIG or --context)")


@contextmanager
def select_revisions(
    sources: RevisionSources, kubeconfig: Kubeconfig, read: ReadRevisions | None = None, *, uses_cluster: bool = False
) -> Iterator[RevisionList]:
    """Choose the revisions of a command that does not read anything else from the cluster, unless it ``uses_cluster``.

    They are those of the directory, or else of the cluster of the kubeconfig. With ``read``, they are those that it finds in the cluster.

    Raises:
        NotConfiguredError: neither a directory nor a cluster is configured.
    """
    if read is None and sources.revisions_dir is not None:
        unused = () if uses_cluster else CLUSTER_PARAMETERS
        refuse_unused(f"with {directory_source()}", *unused, hint="leave one of the two out")
        revisions = directory_revisions(sources.revisions_dir)
        yield replace(revisions, build=lambda raw: build(overridden(raw, sources.overrides)))
        return
    if read is None:
        check_cluster(kubeconfig)
    # Imported here, because it takes as long as an injection, and files alone do not need it.
    from injector.fleet.view import cluster_revisions  # noqa: PLC0415

    with cluster_revisions(sources, kubeconfig, read, note=print_note) as revisions:
        yield revisions


@contextmanager
def select_file_revisions(
    session: ReaderSession, sources: RevisionSources, kubeconfig: Kubeconfig, *, uses_cluster: bool = False
) -> Iterator[RevisionList]:
    """Select the revisions for workloads of files: those of the directory, or of Istio's ConfigMaps in the files, or of the cluster.

    Raises:
        NotConfiguredError: none of these has revisions.
    """
    from injector.fleet.view import file_revisions  # noqa: PLC0415 -- as above

    revisions = None
    if sources.revisions_dir is None:
        revisions = session.run(lambda reader: file_revisions(reader, sources))
    if revisions is not None:
        yield revisions
        return
    with select_revisions(sources, kubeconfig, uses_cluster=uses_cluster) as selected:
        yield selected


def complete_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a revision or tag, from the directory or the cluster of the other flags."""
    params = ctx.params
    with ctx.scope(cleanup=False), redirect_stderr(io.StringIO()), suppress(InjectorError):
        directory = select_directory(params.get("revisions_dir"), embedded=bool(params.get("embedded")))
        sources = RevisionSources(directory, params.get("istio_namespace") or ISTIO_NAMESPACE)
        context = params.get("context_name") or next(iter(params.get("context_names") or ()), None)
        kubeconfig = _kubeconfig(params.get("paths") or (), context)
        with select_revisions(sources, kubeconfig) as revisions:
            return sorted(name for name in revisions.state.served_names if name.startswith(incomplete))
    return []


def revision_option(text: str, metavar: str = "NAME", **settings: Any) -> Callable[[F], F]:
    """Return the option ``--revision``, which completes the names of revisions and tags. ``text`` is its help."""
    return click.option("-r", REVISION_FLAG, metavar=metavar, shell_complete=complete_names, help=text, **settings)


def precedence_option(scope: str) -> Callable[[F], F]:
    """Return the option ``--revision-label-precedence``. ``scope`` is the end of its help."""
    return click.option(
        PRECEDENCE_FLAG,
        "precedence",
        type=click.Choice(PRECEDENCES),
        default=NAMESPACE,
        show_default=True,
        help=f"The label istio.io/rev that counts if a pod and its namespace have one. {scope}",
    )


def tag_name(name: str) -> str:
    """Return the name of a tag. Raises UsageError if the name is not valid."""
    return revision_name(name, flag="TAG", kind="tag")


def revision_name(name: str, *, flag: str = REVISION_FLAG, kind: str = "revision") -> str:
    """Return the name of a revision, or of another kind of object. Raises UsageError if the name is not valid."""
    try:
        return check_name(name, where=flag, kind=kind)
    except ConfigError as error:
        raise UsageError(error.what, where=error.where, hint=error.hint) from error
