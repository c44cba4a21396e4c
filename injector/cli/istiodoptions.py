"""Flags that say how a running istiod is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from injector.cli.options import FILE, option_group
from injector.errors import UsageError
from injector.fleet.istiodoptions import REVIEW_TIMEOUT, IstiodOptions

if TYPE_CHECKING:
    from pathlib import Path

ISTIOD_PARAMETERS: Final = ("istiod_url", "istiod_ca", "istiod_timeout")
"""The parameters of these flags."""


def _istiod(istiod_url: str | None, istiod_ca: Path | None, istiod_timeout: float) -> IstiodOptions:
    if istiod_url is None:
        if istiod_ca is not None:
            raise UsageError("--istiod-ca has no effect without --istiod-url", hint="leave it out")
        return IstiodOptions(timeout=istiod_timeout)
    try:
        url = urlsplit(istiod_url)
        is_valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid or url.username is not None or url.query or url.fragment:
        hint = "write https://HOST:PORT/inject, without a user, a query and a fragment"
        raise UsageError("not the URL of a webhook", where="--istiod-url", hint=hint)
    return IstiodOptions(istiod_url, istiod_ca, istiod_timeout)


istiod_options: Final = option_group(
    "istiod",
    _istiod,
    click.option(
        "--istiod-url",
        metavar="URL",
        help="URL of istiod's webhook. Default: the address of the webhook in the cluster.",
    ),
    click.option("--istiod-ca", type=FILE, metavar="FILE", help="With --istiod-url, the CA of its certificate."),
    click.option(
        "--istiod-timeout",
        type=click.FloatRange(min=0.1, max=60),
        default=REVIEW_TIMEOUT,
        show_default=True,
        metavar="SECONDS",
        help="How long istiod may take for one pod.",
    ),
)
"""``--istiod-url`` and others, as the parameter ``istiod``."""
