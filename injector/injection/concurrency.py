"""The number of Envoy's worker threads, as the templates of Istio 1.10 to 1.17 get it.

Follows ``estimateConcurrency`` in pkg/kube/inject/inject.go (1.17.8). Istio 1.10 declares the field and leaves it 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.injection import containers as c
from injector.kube.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from injector.injection.parameters import Parameters
    from injector.istio.minor import Minor

_DEFAULT: Final = 2
_FIRST_FILLED: Final[Minor] = (1, 11)
_ANNOTATIONS: Final = ("sidecar.istio.io/proxyCPULimit", "sidecar.istio.io/proxyCPU")


def estimated_concurrency(params: Parameters) -> int:
    """Return the ProxyConfig's concurrency; where that is 0, the CPUs that annotations or values give the proxy, rounded up."""
    if params.revision.minor < _FIRST_FILLED:
        return 0
    concurrency = params.proxy_config.concurrency
    if concurrency is None:
        return _DEFAULT
    if concurrency > 0:
        return concurrency
    cpus = (_rounded_up(quantity) for quantity in _cpus(params))
    return next((each for each in cpus if each is not None), _DEFAULT)


def _cpus(params: Parameters) -> Iterator[str]:
    """Yield what says how many CPUs the proxy gets: an annotation alone, or the values' limit and then their request."""
    annotations = c.annotations_of(params.pod)
    annotated = [annotations[name] for name in _ANNOTATIONS if name in annotations]
    if annotated:
        yield annotated[0]
        return
    resources = _at(params.revision.values.tree, "global", "proxy", "resources")
    for kind in ("limits", "requests"):
        cpu = _at(resources, kind, "cpu")
        if cpu is not None:
            yield cpu if isinstance(cpu, str) else f"{cpu:g}"


def _rounded_up(quantity: str) -> int | None:
    try:
        return math.ceil(parse_quantity(quantity))
    except DataError:
        return None


def _at(tree: Any, *path: str) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
