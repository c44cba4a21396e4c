"""Which Istio a ConfigMap is of, where nobody says so.

The image tag of the values names the release in all but test builds; else the shape of the config, and what its templates use that
later minors have not, give a range, of which the newest minor counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from injector.istio.minor import NEWEST, OLDEST, Minor, format_minor

if TYPE_CHECKING:
    from injector.istio.config import InjectConfig
    from injector.istio.values import Values

_RELEASE_TAG = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-.].*)?", re.ASCII)
_LAST_SQUARE: Final[Minor] = (1, 1)
_LAST_SINGLE_TEMPLATE: Final[Minor] = (1, 8)
_GONE: Final[tuple[tuple[re.Pattern[str], Minor, str], ...]] = (
    (re.compile(r"(?:gt|lt|ge|le) \.ProxyConfig\.Concurrency\b(?!\.)"), (1, 6), "compare .ProxyConfig.Concurrency"),
    (re.compile(r"\{\{-?\s*render\s"), (1, 13), "call render"),
    (re.compile(r"(?<![\w)])\.EstimatedConcurrency\b"), (1, 17), "read .EstimatedConcurrency"),
)
"""What templates did, the last minor that let them, and how to say it: the first that fits counts."""


def infer_minor(config: InjectConfig, values: Values) -> tuple[Minor, str]:
    """Return the minor and why: the image tag if it names a known release of this shape, else the newest of the shape."""
    newest, shape = _newest_of_shape(config)
    match = _RELEASE_TAG.fullmatch(values.tag)
    if match is not None:
        tagged = (int(match[1]), int(match[2]))
        if OLDEST <= tagged <= newest:
            return tagged, f"values.global.tag is {values.tag}"
    return newest, f"newest Istio with {shape} (up to {format_minor(newest)})"


def _newest_of_shape(config: InjectConfig) -> tuple[Minor, str]:
    texts = "\n".join(config.templates.values())
    ends = [(last, f"templates that {told}") for pattern, last, told in _GONE if pattern.search(texts)]
    return min([_shape(config), *ends])


def _shape(config: InjectConfig) -> tuple[Minor, str]:
    if not config.appends:
        return NEWEST, "a map of templates"
    if config.delimiters[0] == "[[":
        return _LAST_SQUARE, "a template in [[ ]]"
    return _LAST_SINGLE_TEMPLATE, "a single template in {{ }}"
