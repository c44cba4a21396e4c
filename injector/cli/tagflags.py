"""Flags of the commands that change tags: where a tag leads, and where tags are kept."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from injector.cli import webhookflags as flags
from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, cluster_flags, opened_cluster
from injector.errors import UsageError
from injector.istio.webhooks import WebhookOptions
from injector.revisions.tags import Shadow, Tag
from injector.revisions.tagstore import DirectoryTags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.revisions.clustertags import ClusterTags

F = TypeVar("F", bound="Callable[..., Any]")

WHOLE: Final = 100
"""What the weights of a tag add up to where one of them is left to be worked out."""
_CLUSTER: Final = {"paths": "--kubeconfig", "context_name": "--context", "istio_namespace": "--istio-namespace"}
"""Flags that say nothing of a directory, by their parameter's name."""


@dataclass(frozen=True, slots=True)
class Target:
    """The tag that the flags mean, and whether a shadow that it has already stays."""

    tag: Tag
    keep_shadow: bool = True


def target_flags(command: F) -> F:
    """Add the argument TAG and the flags that say where it leads, as the parameter ``target``."""

    @click.argument("name", metavar="TAG")
    @click.option("-r", "--revision", metavar="REVISION", help="The revision that the tag leads to.")
    @click.option(
        "--weight",
        "weights",
        metavar="REVISION=N",
        multiple=True,
        help="The share of a revision where there are several. Repeatable; --revision gets what is left to 100.",
    )
    @click.option("--salt", metavar="TEXT", help="What deals the workloads to weights; the tag's name without it.")
    @click.option("--shadow", metavar="REVISION[=PERCENT]", help="A candidate to try on a sample of the requests.")
    @click.option("--no-shadow", is_flag=True, help="End the shadow that the tag has.")
    @functools.wraps(command)
    def with_target(*args: Any, name: str, revision: str | None, weights: tuple[str, ...], **kwargs: Any) -> Any:
        salt, shadow, no_shadow = (kwargs.pop(key) for key in ("salt", "shadow", "no_shadow"))
        if shadow is not None and no_shadow:
            raise UsageError("--shadow and --no-shadow exclude each other", hint="give one of the two")
        tag = Tag(flags.tag_name(name), _weights(revision, weights), salt or "", _shadow(shadow))
        return command(*args, target=Target(tag, not no_shadow), **kwargs)

    return cast("F", with_target)


@dataclass(frozen=True, slots=True)
class Place:
    """Where tags are kept: in a directory, or in a cluster.

    Args:
        directory: the directory; None means the cluster.
        kubeconfig: how to reach the cluster.
        istio_namespace: Istio's own there.
        options: the options of a tag's webhooks, as the flags say.
        webhook_name: the name of its object, as the flag says.
    """

    directory: Path | None
    kubeconfig: Kubeconfig
    istio_namespace: str
    options: WebhookOptions = field(default_factory=WebhookOptions)
    webhook_name: str | None = None

    @contextmanager
    def store(self) -> Iterator[DirectoryTags | ClusterTags]:
        """Give the tags that are kept there.

        Raises:
            ConfigError: it is a cluster, and there are no credentials, or they cannot be used.
        """
        if self.directory is not None:
            yield DirectoryTags(self.directory)
            return
        # Imported here, since only this needs what reads a cluster, and --help does not.
        from injector.revisions.clustertags import ClusterTags, Placement  # noqa: PLC0415

        placement = Placement(*flags.stated(self.options), self.webhook_name)
        with opened_cluster(self.kubeconfig) as cluster:
            yield ClusterTags(cluster, self.istio_namespace, placement)


def place_flags(command: F) -> F:
    """Add the flags that say where tags are kept, as the parameter ``place``."""

    @flags.revisions_dir(required=False, without="the cluster's tags without it")
    @cluster_flags
    @ISTIO_NAMESPACE_FLAG
    @functools.wraps(command)
    def with_place(
        *args: Any, directory: Path | None, kubeconfig: Kubeconfig, istio_namespace: str, **kwargs: Any
    ) -> Any:
        _check_idle(directory, _CLUSTER)
        return command(*args, place=Place(directory, kubeconfig, istio_namespace), **kwargs)

    return cast("F", with_place)


def placement_flags(*, in_directory: bool) -> Callable[[F], F]:
    """Return what adds the flags of ``place_flags`` and those of a tag's object, as the parameter ``place``.

    ``in_directory`` says whether those of the object mean something where tags are kept in a directory.
    """
    idle = {key: flag for key, flag in _CLUSTER.items() if not in_directory or key != "istio_namespace"}
    if not in_directory:
        idle |= {"webhook_name": "--webhook-name", **flags.WEBHOOK_FLAGS}

    def add(command: F) -> F:
        @flags.revisions_dir(required=False, without="the cluster's tags without it")
        @cluster_flags
        @flags.webhook_flags
        @click.option(
            "--webhook-name", metavar="NAME", help="The name of the object, instead of istio-revision-tag-TAG."
        )
        @functools.wraps(command)
        def with_place(
            *args: Any,
            directory: Path | None,
            kubeconfig: Kubeconfig,
            options: WebhookOptions,
            webhook_name: str | None,
            **kwargs: Any,
        ) -> Any:
            _check_idle(directory, idle)
            name = flags.webhook_name(webhook_name)
            place = Place(directory, kubeconfig, options.istio_namespace, options, name)
            return command(*args, place=place, **kwargs)

        return cast("F", with_place)

    return add


def _check_idle(directory: Path | None, idle: dict[str, str]) -> None:
    """Refuse flags that would have no effect: who gives them means another place."""
    context = click.get_current_context()
    given = [flag for key, flag in idle.items() if context.get_parameter_source(key) is ParameterSource.COMMANDLINE]
    if directory is not None and given:
        raise UsageError(f"{given[0]} has no effect beside --revisions-dir", hint="leave one of the two out")


def _shadow(text: str | None) -> Shadow | None:
    if text is None:
        return None
    name, equals, percent = text.partition("=")
    revision = flags.revision_name(name, flag="--shadow")
    if not equals:
        return Shadow(revision)
    if not (percent.isascii() and percent.replace(".", "", 1).isdecimal() and float(percent) <= WHOLE):
        raise UsageError(
            f"{percent!r} is no percentage", where="--shadow", hint=f"write REVISION=N, N from 0 to {WHOLE}"
        )
    return Shadow(revision, float(percent) if "." in percent else int(percent))


def _weights(revision: str | None, weights: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    named = None if revision is None else flags.revision_name(revision)
    shares = dict(map(_weight, weights))
    if len(shares) != len(weights):
        raise UsageError("a revision has two weights", where="--weight", hint="name each revision once")
    if named is None and not shares:
        raise UsageError("the tag needs a revision", where="--revision", hint="give --revision REVISION")
    if named is None or named in shares:
        return _some_share(shares)
    if not shares:
        return ((named, 1),)
    rest = WHOLE - sum(shares.values())
    if rest <= 0:
        raise UsageError(
            f"the weights leave nothing of {WHOLE} for `{named}`",
            where="--weight",
            hint=f"lower them, or say --weight {named}=N",
        )
    return ((named, rest), *shares.items())


def _weight(pair: str) -> tuple[str, int]:
    name, equals, number = pair.partition("=")
    if not equals or not (number.isascii() and number.isdecimal()):
        raise UsageError(f"{pair!r} is no weight", where="--weight", hint="write REVISION=N, N a whole number from 0")
    return flags.revision_name(name, flag="--weight"), int(number)


def _some_share(shares: dict[str, int]) -> tuple[tuple[str, int], ...]:
    if not any(shares.values()):
        raise UsageError("every weight is 0", where="--weight", hint="give one revision a weight")
    return tuple(shares.items())
