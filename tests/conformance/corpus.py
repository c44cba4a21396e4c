"""The corpus beside the project: Istio's own cases, loaded as frozen values.

The folder is described in its own README. Nothing of it is copied here: where it is absent, ``present()`` is False and
the tests skip with ``ABSENT`` as their reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[3] / "shared" / "corpus"
ABSENT = "../shared/corpus is not beside the project"

MINORS = ("1.1", "1.4", "1.5", "1.8", "1.10", "1.12", "1.14", "1.17", "1.20", "1.24", "1.28", "1.30")
"""The minors of the corpus, each of whose cases must pass."""

NEW_ROOT = ROOT.with_name("corpus-new")
NEW_MINORS = ("1.26", "1.31", "1.32")
"""The minors of a second folder beside the project, in the same form."""

TESTED = tuple(
    sorted((*MINORS, *(NEW_MINORS if NEW_ROOT.is_dir() else ())), key=lambda minor: int(minor.partition(".")[2]))
)
"""The minors of both folders, as far as they are there."""

WEBHOOK_MINORS = ("1.28", "1.30", *NEW_MINORS)
"""The minors whose ``webhook.json`` must pass."""

OPENSHIFT_NAMESPACE = "test-ns"
OPENSHIFT_ANNOTATIONS = MappingProxyType(
    {
        "openshift.io/sa.scc.uid-range": "1000620000/10000",
        "openshift.io/sa.scc.supplemental-groups": "1000620000/10000",
    }
)
"""What the one namespace of Istio's own test cluster carries; the corpus says so in words, not in its data."""


LOST_ENV: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType(
    {
        ("1.10", "000-deployment-hello"): {"ENABLE_LEGACY_FSGROUP_INJECTION": "false"},
        ("1.12", "000-deployment-hello"): {"ENABLE_LEGACY_FSGROUP_INJECTION": "false"},
        ("1.12", "001-deployment-hello"): {"REWRITE_TCP_PROBES": "false"},
    }
)
"""What Istio's test sets in its process (inject_test.go, ``setup``) and the case does not say: another case of the same files, without
it, has another golden."""

LAST_WHOLE_ERROR = 12
"""Up to 1.12 an ``expectedError`` is Go's whole text, of which only the annotation's name counts."""
ANNOTATION = re.compile(r"[\w.-]+\.istio\.io/\w+")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one control plane runs with: the files of its ConfigMaps and its feature variables."""

    config: Path
    mesh: Path
    values: Path | None
    env: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    revision: str
    istio_version: str


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a ``cases.json``."""

    name: str
    minor: str
    settings: Settings
    source: Path
    expected: Path | None
    expected_error: str
    expected_warning: str
    webhook: bool
    kube_inject: bool

    def error_fits(self, text: str) -> bool:
        """Whether ``text`` is the error expected: it holds the part given or, to 1.12, names the annotation of Go's."""
        if int(self.minor.split(".")[1]) > LAST_WHOLE_ERROR:
            return self.expected_error in text.lower()
        return all(name in text for name in ANNOTATION.findall(self.expected_error))


@dataclass(frozen=True, slots=True)
class WebhookCase:
    """One case of a ``webhook.json``: a pod as the API server sends it, and the pod after the patch."""

    name: str
    minor: str
    settings: Settings
    namespace: str
    pod: dict[str, Any] = field(hash=False)
    patched: dict[str, Any] = field(hash=False)
    """Empty if the pod is refused."""
    by_istio: bool = True
    """Whether it is a case of Istio's own tests, not a pod that Istio's webhook was asked about."""


def present() -> bool:
    """Whether the corpus lies beside the project."""
    return ROOT.is_dir()


def root_of(minor: str) -> Path:
    """The folder with the cases of a minor."""
    return NEW_ROOT if minor in NEW_MINORS else ROOT


@cache
def cases(minor: str, root: Path | None = None) -> tuple[Case, ...]:
    """Every case of ``minor``'s ``cases.json``, in its order; none where the corpus is absent."""
    root = root or root_of(minor)
    if not root.is_dir():
        return ()
    data = json.loads((root / minor / "cases.json").read_text())
    return tuple(_case(root / minor, entry) for entry in data["cases"])


def default_settings(minor: str) -> Settings:
    """The settings that most cases of ``minor`` share: those of a default installation."""
    return Counter(case.settings for case in cases(minor)).most_common(1)[0][0]


@cache
def webhook_cases(minor: str) -> tuple[WebhookCase, ...]:
    """Every review of ``minor``'s ``webhook.json`` files that Istio answers with a patch; none where there is no such file."""
    return (*_reviews(minor, minor, "webhook"), *_reviews(minor, f"{minor}-more", "webhook"))


@cache
def denied_cases(minor: str) -> tuple[WebhookCase, ...]:
    """Every review of ``minor`` that Istio refuses."""
    return tuple(_reviews(minor, f"{minor}-more", "denied"))


def _reviews(minor: str, folder: str, kind: str) -> Iterator[WebhookCase]:
    path = root_of(minor) / folder / f"{kind}.json"
    if not path.exists():
        return
    data = json.loads(path.read_text())
    for entry in data["cases"]:
        yield WebhookCase(
            name=entry["name"],
            minor=minor,
            settings=_settings(path.parent, {"revision": data["revision"], **entry}),
            namespace=entry["namespace"],
            pod=entry["pod"],
            patched=entry.get("patched", {}),
            by_istio=folder == minor,
        )


def policy_rows() -> list[dict[str, Any]]:
    """The rows of ``policy.json``: a policy, selectors and a pod, and whether it is injected."""
    if not present():
        return []
    rows: list[dict[str, Any]] = json.loads((ROOT / "policy.json").read_text())["cases"]
    return rows


def _case(folder: Path, entry: Mapping[str, Any]) -> Case:
    minor = folder.name
    expected = entry.get("expected")
    return Case(
        name=entry["name"],
        minor=minor,
        settings=_settings(folder, {"env": LOST_ENV.get((minor, entry["name"]), {}), **entry}),
        source=folder / entry["input"],
        expected=folder / expected if expected else None,
        expected_error=entry.get("expectedError", ""),
        expected_warning=entry.get("expectedWarning", ""),
        webhook=entry.get("webhook", True) and not _has_cron_job(folder / entry["input"]),
        kube_inject=entry.get("kubeInject", True),
    )


def _has_cron_job(path: Path) -> bool:
    """Whether a manifest has a CronJob: Istio writes its pods' metadata to the job's template, where no pod gets it from."""
    return re.search(r"(?m)^kind: CronJob", path.read_text()) is not None


def _settings(folder: Path, entry: Mapping[str, Any]) -> Settings:
    values = entry.get("values")
    return Settings(
        config=folder / entry["config"],
        mesh=folder / entry["mesh"],
        values=folder / values if values else None,
        env=tuple(sorted(entry.get("env", {}).items())),
        nodes=tuple(entry.get("nodes", ())),
        revision=entry.get("revision", ""),
        istio_version=folder.name.partition("-")[0],
    )
