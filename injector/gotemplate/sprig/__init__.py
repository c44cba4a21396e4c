"""Every function of Masterminds/sprig v3.3.0's TxtFuncMap, under its own names and with its own signatures.

It promises sprig's results and error texts. Functions that depend on more than their arguments (clock, environment, randomness) are
marked so and take those from the caller; none reads the process's environment or the network on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from random import Random, SystemRandom

from injector.gotemplate import costs
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.sprig import collections, crypto, dates, defaults, numeric, regex, semver, strings, url

__all__ = ["txt_func_map"]


def txt_func_map(
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    environ: Mapping[str, str] | None = None,
    source: Random | None = None,
    lookup: Callable[[str], str] = lambda _name: "",
) -> FuncMap:
    """Return sprig's functions by name.

    ``clock`` is for now, ago, date and the certificates, ``environ`` for ``env`` and ``expandenv``, and ``source`` for random values, by
    default the operating system's. ``lookup`` answers ``getHostByName``. By default no template reads the process's environment or the
    network.
    """
    functions = FuncMap()
    for module in (collections, crypto, dates, defaults, numeric, regex, semver, strings, url):
        functions.update(module.FUNCTIONS)
    for each in (dates.CLOCKED, crypto.CLOCKED):
        functions.update(each.bound(clock))
    for each in (crypto.RANDOM, strings.RANDOM):
        functions.update(each.bound(source or SystemRandom()))
    functions.update(strings.ENVIRONMENT.bound(environ or {}))
    functions.define("func(string) string", "getHostByName", cost=costs.PASS, hermetic=False)(lookup)
    return functions
