"""The project's own control planes and pods that Istio's webhooks were asked about, and their answers.

``injectors/`` has them as YAML: the control planes of ``planes.yaml`` have the templates of ``templates.yaml`` and get the pods of
``pods.yaml``, and ``cases.yaml`` has cases with settings of their own. ``recorded/injectors`` has the answers, and random pods.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from injector.fleet.istiod import as_served
from injector.istio.behaviours import missing_fields, parse_minor
from injector.istio.webhooks.paths import PATH_PREFIX
from injector.kube.typed import prune
from tests.differential.injectors import Answer, Case, ControlPlane
from tests.factories import make_container, make_pod

FOLDER = Path(__file__).with_name("injectors")
RECORDED = Path(__file__).with_name("recorded") / "injectors"
FIRST_OVERLAY = (1, 9)
"""The first minor with named templates."""
POLICY = ("policy", "defaultTemplates", "aliases", "injectedAnnotations", "neverInjectSelector", "alwaysInjectSelector")


@dataclass(frozen=True)
class Recording:
    """What an istiod with one control plane answered, and on which day, with the release and the commit that it was built from."""

    release: str
    commit: str
    date: str
    name: str
    plane: ControlPlane
    answers: list[tuple[Case, Answer]]

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def of(cls, line: str) -> Recording:
        """Read such a line."""
        data = json.loads(line)
        plane = ControlPlane(**data.pop("plane"))
        answers = [(Case(**case), answer) for case, answer in data.pop("answers")]
        return cls(**data, plane=plane, answers=answers)


def write(file: Path, recordings: Iterable[Recording]) -> None:
    """Write recordings."""
    text = "".join(f"{recording.line()}\n" for recording in recordings)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(file: Path) -> list[Recording]:
    """Read recordings."""
    return [Recording.of(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


@cache
def recordings() -> list[Recording]:
    """Return all recordings that the project has, by minor."""
    files = sorted(RECORDED.glob("*.jsonl.gz"), key=lambda file: parse_minor(file.name.removesuffix(".jsonl.gz")))
    return [recording for file in files for recording in read(file)]


@dataclass(frozen=True)
class Question:
    """A control plane and the cases for it."""

    name: str
    plane: ControlPlane
    cases: list[Case]


def questions(minor: str) -> Iterator[Question]:
    """Return the control planes and the cases of a minor."""
    yield from _own_planes(minor)
    yield from _own_settings(minor)


def differs(minor: str, name: str) -> str:
    """Return why our answer to a case differs; empty if it does not."""
    entry = _yaml("cases")["cases"].get(name) or _yaml("pods").get(name, {})
    first, last = (parse_minor(entry.get(key, minor)) for key in ("differs_since", "differs_until"))
    return entry.get("differs", "") if first <= parse_minor(minor) <= last else ""


@cache
def _yaml(name: str) -> Any:
    return yaml.load((FOLDER / f"{name}.yaml").read_text(), yaml.CSafeLoader)


def _is_in(minor: str, entry: Mapping[str, Any]) -> bool:
    since, until = (parse_minor(entry.get(key, minor)) for key in ("since", "until"))
    return since <= parse_minor(minor) <= until


def own_templates(minor: str) -> dict[str, str]:
    """Return the templates of a minor, by name."""
    return {name: template["text"] for name, template in _yaml("templates").items() if _is_in(minor, template)}


def own_values(plane: str) -> dict[str, Any]:
    """Return the values of a control plane."""
    values: dict[str, Any] = _yaml("planes")[plane]["values"]
    return values


def _own_planes(minor: str) -> Iterator[Question]:
    texts = own_templates(minor)
    template = {"templates": texts} if parse_minor(minor) >= FIRST_OVERLAY else {"template": texts["list"]}
    for name, entry in _yaml("planes").items():
        if not _is_in(minor, entry):
            continue
        config = {"policy": "enabled"} | {key: entry[key] for key in POLICY if key in entry} | template
        plane = ControlPlane(
            minor,
            json.dumps(config),
            json.dumps(entry["values"]),
            json.dumps(entry["mesh"]),
            env=entry["env"],
            nodes=entry.get("nodes", {}),
            namespaces=entry.get("namespaces", {}),
            proxy_configs=entry.get("proxyConfigs", ()),
            name=entry.get("name", ""),
        )
        cases = [
            _known(minor, _case(title, {"path": entry.get("path", PATH_PREFIX)} | fields))
            for title, fields in _yaml("pods").items()
            if name in fields.get("planes", ("plain",)) and _is_in(minor, fields)
        ]
        yield Question(name, plane, cases)


def _own_settings(minor: str) -> Iterator[Question]:
    data, result = _yaml("cases"), dict[str, Question]()
    for name, case in data["cases"].items():
        if minor not in case["minors"]:
            continue
        texts = {"values": "{}", "mesh": "{}", **data["settings"][case["settings"]]}
        template: dict[str, Any] = {"templates": {"sidecar": texts["overlay"], **texts.get("templates", {})}}
        if parse_minor(minor) < FIRST_OVERLAY:
            template = {"template": texts["list"]}
        plane = ControlPlane(
            minor,
            json.dumps({"policy": "enabled", **template}),
            texts["values"],
            case.get("mesh", texts["mesh"]),
            env=case.get("env", {}),
            nodes=case.get("nodes", {}),
            namespaces=case.get("namespaces", {}),
            proxy_configs=case.get("proxyConfigs", ()),
        )
        key = json.dumps(asdict(plane), sort_keys=True)
        title = f"{case['settings']} {len(result)}"
        result.setdefault(key, Question(title, plane, [])).cases.append(_case(name, case))
    yield from result.values()


def _known(minor: str, case: Case) -> Case:
    """Return a case without the fields of its pod that the minor's Kubernetes does not know."""
    return replace(case, pod=prune(case.pod, "v1.Pod", missing_fields(parse_minor(minor))))


def _case(name: str, entry: Mapping[str, Any]) -> Case:
    pod = make_pod("web", containers=[make_container()])
    pod = {"metadata": pod["metadata"] | entry.get("metadata", {}), "spec": pod["spec"] | entry.get("spec", {})}
    pod |= {"status": entry["status"]} if "status" in entry else {}
    return Case(name, as_served(pod), entry.get("path", PATH_PREFIX))
