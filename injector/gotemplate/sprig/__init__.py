"""Every function of Masterminds/sprig v3.3.0's TxtFuncMap, under its own names and with its own signatures.

The modules are groups: ``collections``, ``crypto``, ``dates``, ``defaults``, ``numeric``, ``regex``, ``semver``, ``strings`` and ``url``.

It promises sprig's results and error texts. Functions that depend on more than their arguments (clock, environment, randomness) are
marked so, and take a clock and an environment from the caller; none reads the process's environment or the network on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from injector.gotemplate import costs
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig import collections, crypto, dates, defaults, numeric, regex, semver, strings, url

__all__ = ["txt_func_map"]


def txt_func_map(
    *, clock: Callable[[], datetime] = lambda: datetime.now(UTC), environ: Mapping[str, str] | None = None
) -> FuncMap:
    """Return sprig's functions by name.

    ``clock`` is for now, ago, date and the certificates, ``environ`` for ``env`` and ``expandenv``. By default no template reads the
    environment of the process, and none reads the network: ``getHostByName`` returns an empty text.
    """
    functions = FuncMap()
    for module in (collections, crypto, dates, defaults, numeric, regex, semver, strings, url):
        functions.update(module.FUNCTIONS)
    for clocked in (dates.CLOCKED, crypto.CLOCKED):
        functions.update(clocked.bind(clock))
    functions.update(strings.ENVIRONMENT.bind(environ or {}))
    functions.define("func(string) string", "getHostByName", cost=costs.PASS, hermetic=False)(lambda _name: "")
    return functions
