"""What a minor makes of a pod, and what the minor before it makes of it: a case for each change that few recorded answers show."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from injector.errors import DataError
from injector.fleet.istiod import as_served
from injector.istio.behaviours import Minor, format_minor
from tests.cases import cases
from tests.cli.clusters import invoke
from tests.differential.injectorcases import FIRST_OVERLAY
from tests.differential.injectors import Case, ControlPlane, ours
from tests.factories import make_pod, proxy_of

PLANE = {"values": "{}", "mesh": "{}"}
REFUSED = {"refused": True}
SKIPPED = {"skipped": True}


def inject_config(minor: Minor, template: str, more: dict[str, Any]) -> str:
    """Return an inject config whose template has lists, which Istio up to 1.8 appends. Later, they are the spec of an overlay."""
    if minor < FIRST_OVERLAY:
        return json.dumps({"policy": "enabled", "template": template, **more})
    return json.dumps({"policy": "enabled", "templates": {"sidecar": f"spec:\n{indent(template, '  ')}"}, **more})


def outcome(minor: Minor, template: str, pod_options: dict[str, Any]) -> dict[str, Any]:
    """Return what a minor makes of a pod: the parts of the injected pod that the cases look at, or that there is none."""
    plane = ControlPlane(
        format_minor(minor),
        inject_config(minor, template, pod_options.get("config", {})),
        **PLANE | pod_options.get("plane", {}),
    )
    pod = make_pod(**pod_options.get("pod", {}))
    case = Case(
        "",
        as_served({**pod, "metadata": pod["metadata"] | pod_options.get("metadata", {})}),
        pod_options.get("path", "/inject"),
    )
    try:
        answer = ours(plane, case)
    except DataError:
        return REFUSED
    if "pod" not in answer:
        return {key: value for key, value in answer.items() if key != "why"}
    pod = answer["pod"]
    return {
        "labels": pod["metadata"].get("labels", {}),
        "annotations": pod["metadata"]["annotations"],
        "names": [container["name"] for container in pod["spec"]["containers"]],
        "spec": pod["spec"],
        "app": pod["spec"]["containers"][0],
        "proxy": proxy_of(pod),
        "env": {variable["name"]: variable.get("value", "") for variable in proxy_of(pod).get("env", [])},
    }


def part(outcome: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the parts and fields that ``wanted`` names."""
    return {
        name: {key: outcome[name].get(key) for key in value}
        if name in outcome and isinstance(value, dict)
        else outcome.get(name)
        for name, value in wanted.items()
    }


@cases("minor", "template", "pod_options", "before", "after")
def test_a_minor_differs_from_the_one_before(
    minor: Minor, template: str, pod_options: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    older = outcome((minor[0], minor[1] - 1), template, pod_options)
    newer = outcome(minor, template, pod_options)

    assert part(older, before) == before
    assert part(newer, after) == after


def printed(folder: Path, minor: Minor, template: str, manifest: dict[str, Any]) -> str:
    """Return what kube-inject of a minor prints, with its warnings."""
    (folder / "config").write_text(inject_config(minor, template, {}))
    (folder / "values").write_text("{}")
    files = ["--injectConfigFile", str(folder / "config"), "--valuesFile", str(folder / "values")]
    result = invoke(
        "kube-inject",
        *files,
        "--istio-version",
        format_minor(minor),
        "--guard",
        "off",
        "-",
        text=yaml.safe_dump(manifest),
    )
    assert result.exit_code == 0, result.stderr
    return result.stdout + result.stderr


@cases("minor", "template", "manifest", "before", "after")
def test_kube_inject_of_a_minor_differs_from_that_of_the_one_before(
    tmp_path: Path, minor: Minor, template: str, manifest: dict[str, Any], before: str, after: str
) -> None:
    older = printed(tmp_path, (minor[0], minor[1] - 1), template, manifest)
    newer = printed(tmp_path, minor, template, manifest)

    for text, there, missing in ((before, older, newer), (after, newer, older)):
        assert not text or (text in there and text not in missing)
