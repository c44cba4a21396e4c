"""Reports for reviews of a change: what ``injector diff`` found, as a comment in Markdown and as SARIF.

A report is made of the data of ``-o json`` and of the text of each workload, whose lines have their control characters escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from injector.cli.formats.markdown import diff_as_markdown
from injector.cli.formats.sarif import diff_as_sarif

Report: TypeAlias = Callable[[Mapping[str, Any], Sequence[str]], str]

REPORTS: Final[Mapping[str, Report]] = {"markdown": diff_as_markdown, "sarif": diff_as_sarif}
"""The reports by the name of their format."""
