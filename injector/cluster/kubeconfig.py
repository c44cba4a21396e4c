"""Kubeconfig files. Only the names of contexts and namespaces are shown, never credentials.

Several files are merged as by kubectl for ``KUBECONFIG``: the first file that sets a value wins
(https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_NAMESPACE: Final = "default"
_SHOWN_NAMES: Final = 20
_SHOWN_LENGTH: Final = 80


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """How to reach an API server.

    Args:
        paths: the files; empty means the service account of the current pod.
        context: the context to use instead of the current one.
    """

    paths: tuple[Path, ...] = ()
    context: str | None = None

    def __str__(self) -> str:
        """Name the files, as ``KUBECONFIG`` would."""
        return os.pathsep.join(map(str, self.paths)) or "the pod's service account"

    def chosen_context(self) -> str | None:
        """Return the name of the context to use; None if no file has a current one.

        Raises:
            ConfigError: a file cannot be read, or no file has the context.
        """
        return self._choose()[0]

    def is_configured(self) -> bool:
        """Return whether there is an API server to use: a context is given or current, or the process runs in a pod.

        Raises:
            ConfigError: as ``chosen_context``.
        """
        in_pod = not self.paths and "KUBERNETES_SERVICE_HOST" in os.environ
        return self.context is not None or in_pod or self.chosen_context() is not None

    def namespace(self) -> str:
        """Return the namespace of the context to use, ``default`` if it has none.

        Raises:
            ConfigError: as ``chosen_context``.
        """
        namespace = self._choose()[1].get("namespace")
        return namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE

    def _choose(self) -> tuple[str | None, Mapping[str, Any]]:
        """Return the name and the content of the context to use."""
        contents = [_content(path) for path in self.paths]
        # The first file that has a value counts.
        contexts = {name: context for content in reversed(contents) for name, context in _contexts(content).items()}
        if self.context is None:
            currents = (content.get("current-context") for content in contents)
            current = next((current for current in currents if isinstance(current, str) and current), None)
            return current, contexts.get(current or "", {})
        if self.context not in contexts:
            names = sorted(contexts)
            raise ConfigError(
                f"there is no context {self.context[:_SHOWN_LENGTH]!r}",
                where=str(self),
                hint=f"give --context one of {', '.join(names[:_SHOWN_NAMES])}" if names else "it has no contexts",
            )
        return self.context, contexts[self.context]


def unusable(kubeconfig: object, fault: str) -> ConfigError:
    """Return the error for a kubeconfig that cannot be used; ``fault`` must not quote its content."""
    return ConfigError(
        f"its credentials cannot be used ({fault})", where=str(kubeconfig), hint="try it with `kubectl --kubeconfig`"
    )


def _content(path: Path) -> Mapping[str, Any]:
    try:
        read = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint="correct --kubeconfig") from error
    except (DataError, UnicodeDecodeError):
        # The cause is neither shown nor chained, because it would quote the file.
        raise unusable(path, "not YAML") from None
    return read if isinstance(read, dict) else {}


def _contexts(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the contexts of a file by name."""
    contexts = content.get("contexts")
    named = [each for each in contexts if isinstance(each, dict)] if isinstance(contexts, list) else []
    return {each["name"]: each.get("context") or {} for each in reversed(named) if isinstance(each.get("name"), str)}
