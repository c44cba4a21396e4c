"""Go's durations as flags: ``5s``, ``1m30s``."""

from __future__ import annotations

from typing import Any

import click

from injector.errors import UsageError
from injector.flagvalues import parse_duration


class Duration(click.ParamType[float]):
    """A Go duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return its seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
