"""Where commands read and write tags: in a directory of revisions, or in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from injector.cli.options import (
    option_group,
    refuse_unused,
    validator,
)
from injector.cli.sources import (
    ISTIO_NAMESPACE_OPTION,
    directory_source,
    kubeconfig_options,
    revisions_dir,
)
from injector.cli.webhookoptions import explicit_webhook_options, webhook_options
from injector.errors import NotConfiguredError
from injector.istio.webhooks.configurations import WebhookOptions
from injector.kube.selectors import is_subdomain
from injector.revisions.clustertags import ClusterTags, Placement
from injector.revisions.tagstore import DirectoryTags

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig


@dataclass(frozen=True, slots=True)
class TagLocation:
    """Where tags are: in a directory or, if that is None, in a cluster.

    ``options`` are those of the webhooks of a tag. ``webhook_name`` is the name of its MutatingWebhookConfiguration, if not the usual one.
    """

    directory: Path | None
    kubeconfig: Kubeconfig
    options: WebhookOptions
    webhook_name: str | None = None

    @contextmanager
    def store(self) -> Iterator[DirectoryTags | ClusterTags]:
        """Open the tags. Raises ConfigError if the cluster's credentials are missing or not valid."""
        if self.directory is not None:
            yield DirectoryTags(self.directory)
            return
        from injector.cluster.session import open_session  # noqa: PLC0415 -- a directory needs no event loop

        placement = Placement(*explicit_webhook_options(self.options), self.webhook_name)
        try:
            with open_session(self.kubeconfig) as cluster:
                yield ClusterTags(cluster, self.options.istio_namespace, placement)
        except NotConfiguredError as error:
            error.hint += ", or --revisions-dir DIR to work on files"
            raise

    def check_unused(self, *parameters: str) -> None:
        """Refuse flags that have no effect on a directory by a UsageError, because the user probably means a cluster."""
        if self.directory is not None:
            refuse_unused(f"with {directory_source()}", *parameters, hint="leave one of the two out")


def _location(revisions_dir: Path | None, kubeconfig: Kubeconfig, istio_namespace: str) -> TagLocation:
    location = TagLocation(revisions_dir, kubeconfig, WebhookOptions(istio_namespace=istio_namespace))
    location.check_unused("paths", "context_name", "istio_namespace")
    return location


def _write_location(
    revisions_dir: Path | None, kubeconfig: Kubeconfig, options: WebhookOptions, webhook_name: str | None
) -> TagLocation:
    location = TagLocation(revisions_dir, kubeconfig, options, webhook_name)
    location.check_unused("paths", "context_name")
    return location


DIRECTORY_OPTION: Final = revisions_dir("the tags in the cluster", has_embedded=False)
location_options: Final = option_group(
    "location", _location, DIRECTORY_OPTION, kubeconfig_options, ISTIO_NAMESPACE_OPTION
)
"""The options that say where tags are, as the parameter ``location``."""
write_options: Final = option_group(
    "location",
    _write_location,
    DIRECTORY_OPTION,
    kubeconfig_options,
    webhook_options,
    click.option(
        "--webhook-name",
        metavar="NAME",
        callback=validator(
            is_subdomain,
            "a valid name of a MutatingWebhookConfiguration",
            "use at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit around each `.`",
        ),
        help="Name of the MutatingWebhookConfiguration. Default: istio-revision-tag-TAG.",
    ),
)
"""The options of ``location_options`` and of a tag's webhook, as the parameter ``location``."""
