"""Kubeconfig files.

Only the names of contexts and namespaces are shown, never credentials. Several files are merged as by kubectl for ``KUBECONFIG``: the first
file that sets a value wins (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError, NotConfiguredError
from injector.kube.objects import mapping_at
from injector.kube.yaml import load_yaml
from injector.regularfiles import read_file

if TYPE_CHECKING:
    from pathlib import Path


DEFAULT_NAMESPACE: Final = "default"
_SHOWN_NAMES: Final = 20
_SHOWN_LENGTH: Final = 80


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """How to reach an API server: by files, or without any by the service account of the current pod.

    ``context`` is the context to use instead of the current one. ``missing`` are the files of ``KUBECONFIG`` if none exists, for messages.
    All methods raise ConfigError if a file cannot be read, or if no file has the context.
    """

    paths: tuple[Path, ...] = ()
    context: str | None = None
    missing: tuple[Path, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Name the files, as ``KUBECONFIG`` would."""
        return os.pathsep.join(map(str, self.paths)) or "the pod's service account"

    def select_context(self) -> str | None:
        """Return the name of the context to use; None if no file has a current one."""
        return self._choose()[0]

    def is_configured(self) -> bool:
        """Return whether there is an API server to use: a context is given or current, or the process runs in a pod."""
        in_pod = not self.paths and "KUBERNETES_SERVICE_HOST" in os.environ
        return self.context is not None or in_pod or self.select_context() is not None

    def contexts(self) -> list[str]:
        """Return the names of all contexts."""
        return sorted({name for path in self.paths for name in _contexts(_content(path))})

    def namespace(self) -> str:
        """Return the namespace of the context to use, ``default`` if it has none."""
        namespace = self._choose()[1].get("namespace")
        return namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE

    def _choose(self) -> tuple[str | None, Mapping[str, Any]]:
        """Return the name and the content of the context to use."""
        contents = [_content(path) for path in self.paths]
        # The first file that has a value counts.
        contexts = {name: context for content in reversed(contents) for name, context in _contexts(content).items()}
        currents = (content.get("current-context") for content in contents)
        name = self.context or next((current for current in currents if isinstance(current, str) and current), None)
        if name is None:
            return None, {}
        if name not in contexts:
            what = (
                f"there is no context {self.context[:_SHOWN_LENGTH]!r}"
                if self.context
                else "it lacks its current context"
            )
            where = str(self) if self.paths else "--context"
            raise ConfigError(what, where=where, hint=_context_hint(contexts, self.missing))
        return name, contexts[name]

    def without_cluster(self) -> NotConfiguredError:
        """Return the error for a command that needs a cluster, if there is no file."""
        if self.missing:
            return NotConfiguredError("no cluster is configured", where="KUBECONFIG", hint=_missing_hint(self.missing))
        return NotConfiguredError("no cluster is configured", where="kubeconfig", hint="give --kubeconfig FILE")

    def without_context(self) -> NotConfiguredError:
        """Return the error for a command that needs a cluster, if no file has a current context."""
        return NotConfiguredError("no context is current", where=str(self), hint=_context_hint(self.contexts()))


def _missing_hint(missing: Iterable[Path]) -> str:
    return f"{os.pathsep.join(map(str, missing))} does not exist; correct it, or give --kubeconfig FILE"


def _context_hint(names: Iterable[str], missing: Sequence[Path] = ()) -> str:
    if missing:
        return _missing_hint(missing)
    listed = ", ".join(sorted(names)[:_SHOWN_NAMES])
    return f"give --context one of {listed}" if listed else "it has no contexts; give another --kubeconfig"


def unusable(kubeconfig: object, fault: str) -> ConfigError:
    """Return the error for a kubeconfig that cannot be used; ``fault`` must not quote its content."""
    return ConfigError(
        f"its credentials cannot be used ({fault})", where=str(kubeconfig), hint="try it with `kubectl --kubeconfig`"
    )


def _content(path: Path) -> Mapping[str, Any]:
    try:
        # The usual way to name no cluster; as for kubectl, it is an empty file.
        text = b"" if path.samefile(os.devnull) else read_file(path)
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=str(path), hint="correct --kubeconfig or KUBECONFIG"
        ) from error
    try:
        read = load_yaml(text.decode())
    except (DataError, UnicodeDecodeError):
        # The cause is neither shown nor chained, because it would quote the file.
        raise unusable(path, "not YAML") from None
    return read if isinstance(read, dict) else {}


def _contexts(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the contexts of a file by name."""
    contexts = content.get("contexts")
    named = [context for context in contexts if isinstance(context, dict)] if isinstance(contexts, list) else []
    return {
        context["name"]: mapping_at(context, "context")
        for context in reversed(named)
        if isinstance(context.get("name"), str)
    }
