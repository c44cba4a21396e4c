"""A bar on the terminal while many workloads are worked on; nothing where standard error is no terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


def shown(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items, with a bar that says how many are done."""
    if not sys.stderr.isatty():
        yield from items
        return
    # Imported here, since it takes as long as all else that --help needs.
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import track  # noqa: PLC0415

    yield from track(items, description=escape(escape_line(what)), console=Console(stderr=True), transient=True)
