"""Prepares the support of a new minor of Istio: ``scripts/new-minor CHECKOUT``, for the previous minor and then for the new one.

Runs Istio's own tests of kube-inject and of the webhook in a checkout, records their cases in the format of the corpus, and runs them
here. If the previous minor was recorded before, lists what differs: template functions and fields, annotations, labels, the fields and
defaults of mesh configs, the chart's values, and the feature variables that the injector reads. The checkout stays as it is: the
recorder (recorder/record_test.go) and its calls are overlaid when Go builds the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import run
from tests.conformance.page import complete, keep

PACKAGE = Path("pkg/kube/inject")
VALUES = Path("manifests/charts/istio-control/istio-discovery/values.yaml")
RECORDER = Path(__file__).with_name("recorder") / "record_test.go"
WORK = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "injector-minors"
FACTS = "facts.json"
TEST_LIMIT = 7200.0
LAST_LINES = 30
CALLS = {
    "inject_test.go": {
        't.Run("kube-inject", func(t *testing.T) {': 'recordCase(t, client, sidecarTemplate, valuesConfig, mc, map[string]any{"input": '
        'c.in, "expected": c.want, "expectedError": c.expectedError, "expectedWarning": c.expectedLog, "kubeInject": !c.skipInjection, '
        '"webhook": !c.skipWebhook && c.expectedError == ""})',
        "if err := normalizeAndCompareDeployments(gotPod, wantPod, false, t)": "recordReview(t, "
        "jsonToUnstructured(inputYAML, t).GetNamespace(), templateJSON, gotPod)",
    },
    "webhook_test.go": {"config = &cfg": "recordConfig(&cfg, rawConfig)"},
}
"""The calls of the recorder, each with the line of Istio's test before which it stands."""

Facts = dict[str, dict[str, Any]]


def recorded(checkout: Path, work: Path, replaced: list[str]) -> list[dict[str, Any]]:
    """Run Istio's tests in a checkout, and return what the recorder wrote.

    Raises:
        SystemExit: the tests lack a line before which the recorder is called, or they fail.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    overlay = {str(checkout / PACKAGE / RECORDER.name): work / RECORDER.name}
    (work / RECORDER.name).write_text(RECORDER.read_text().removeprefix("//go:build ignore\n"))
    for name, calls in CALLS.items():
        text = (checkout / PACKAGE / name).read_text()
        for line, call in calls.items():
            if line not in text:
                sys.exit(f"{PACKAGE / name} has no line `{line}`: adapt CALLS in {Path(__file__).name}")
            text = text.replace(line, f"{call}\n{line}")
        overlay[str(checkout / PACKAGE / name)] = work / name
        (work / name).write_text(text)
    (work / "overlay.json").write_text(json.dumps({"Replace": {path: str(file) for path, file in overlay.items()}}))
    for name in ("go.mod", "go.sum"):
        shutil.copy(checkout / name, work)
    for each in replaced:
        subprocess.run(["go", "mod", "edit", f"-replace={each}", str(work / "go.mod")], check=True)
    command = [
        "go",
        "test",
        "-count=1",
        "-vet=off",
        "-mod=mod",
        f"-modfile={work / 'go.mod'}",
        f"-overlay={work / 'overlay.json'}",
    ]
    command += ["-run", "^(TestInjection|TestInjectionOlderVersion|TestRecordFacts)$", f"./{PACKAGE}"]
    record = work / "record.jsonl"
    done = subprocess.run(
        command,
        cwd=checkout,
        env={**os.environ, "RECORD": str(record)},
        check=False,
        text=True,
        capture_output=True,
        timeout=TEST_LIMIT,
    )
    if done.returncode:
        said = dict.fromkeys(f"{done.stdout}\n{done.stderr}".splitlines())
        sys.exit("\n".join([f"Istio's tests fail in {checkout}:", *[*said][-LAST_LINES:]]))
    return [json.loads(line) for line in record.read_text().splitlines()]


def write_cases(lines: list[dict[str, Any]], source: Path, folder: Path, istio: str) -> None:
    """Write the recorded cases, whose files are in ``source``, into a folder of the corpus' format."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("inputs", "expected", "settings"):
        (folder / name).mkdir(parents=True)
    cases, settings = [], {}
    for number, line in enumerate(_ordered(lines, "case")):
        test = {key: value for key, value in line["test"].items() if value not in ("", True)}
        if "expectedError" in test:
            test.pop("expected", None)
        case = {"name": f"{number:03d}-{test.get('expected', test['input'])}", **test}
        for key, where in (("input", "inputs"), ("expected", "expected")):
            if key in test:
                shutil.copy(source / test[key], folder / where)
                case[key] = f"{where}/{test[key]}"
        settings[line["case"]] = _settings(line, folder)
        cases.append(case | settings[line["case"]])
    reviews = []
    for number, line in enumerate(_ordered(lines, "review")):
        test, _, _ = line["review"].partition("/webhook/")
        review = {key: line[key] for key in ("namespace", "pod", "patched")}
        reviews.append({"name": f"{number:03d}-{test.partition('_')[2]}", **review, **settings[test]})
    (folder / "cases.json").write_text(json.dumps({"istio": istio, "cases": cases}, indent=1))
    (folder / "webhook.json").write_text(
        json.dumps({"istio": istio, "revision": "default", "cases": reviews}, indent=1)
    )


def _ordered(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the lines of a kind in the order of Istio's tests, which run in parallel."""
    found = [line for line in lines if kind in line]
    return sorted(
        found,
        key=lambda line: (line[kind].partition("/")[0], [int(each) for each in re.findall(r"\[(\d+)\]", line[kind])]),
    )


def _settings(line: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Write the texts of a case's settings, each once, and return what the case says of them."""
    found = {key: line[key] for key in ("env", "nodes")}
    for key in ("config", "values", "mesh"):
        name = f"settings/{key}-{hashlib.sha256(line[key].encode()).hexdigest()[:8]}.yaml"
        (folder / name).write_text(line[key])
        found[key] = name
    return found


def facts(lines: list[dict[str, Any]], checkout: Path) -> Facts:
    """Return the names and defaults of a minor, by kind."""
    found: Facts
    (found,) = (line["facts"] for line in lines if "facts" in line)
    found["mesh config default"] = _flat(found["mesh config default"])
    found["value of the chart"] = _flat(yaml.safe_load((checkout / VALUES).read_text()))
    sources = [path.read_text() for path in (checkout / PACKAGE).glob("*.go") if not path.name.endswith("_test.go")]
    found["feature variable"] = dict.fromkeys(re.findall(r"\b(?:\w*features|platform)\.(\w+)", "\n".join(sources)), "")
    found["module"] = dict(re.findall(r"(?m)^\s(k8s\.io/api|istio\.io/api) (\S+)", (checkout / "go.mod").read_text()))
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {
            name: leaf for key, each in value.items() for name, leaf in _flat(each, f"{path}.{key}".lstrip(".")).items()
        }
    return {path: value}


def differences(old: Facts, new: Facts) -> Iterator[str]:
    """Yield what differs between two minors, a line for each name."""
    for kind, after in new.items():
        before = old.get(kind, {})
        yield from (f"- {kind} {name}" for name in sorted(before.keys() - after))
        for name in sorted(after):
            value = json.dumps(after[name])
            if name not in before:
                yield f"+ {kind} {name}: {value}"
            elif before[name] != after[name]:
                yield f"~ {kind} {name}: {json.dumps(before[name])} -> {value}"


def _number(minor: str) -> list[int]:
    return [int(part) for part in minor.split(".")]


def main() -> int:
    """Record, run and compare; the exit status is 1 if a case fails."""
    parser = argparse.ArgumentParser(
        prog="scripts/new-minor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a folder with Istio's source")
    parser.add_argument("--work", type=Path, default=WORK, help="keep the recorded cases here (default: %(default)s)")
    parser.add_argument(
        "--replace", action="append", default=[], metavar="MODULE=MODULE@VERSION", help="build with another Go module"
    )
    parser.add_argument(
        "--keep", metavar="NOTE", help="keep the results for docs/compatibility.md; NOTE says what was tested"
    )
    options = parser.parse_args()
    root, checkout = options.work.resolve(), options.checkout.resolve()
    minor = (checkout / "VERSION").read_text().strip()
    lines = recorded(checkout, root / "go" / minor, options.replace)
    write_cases(lines, checkout / PACKAGE / "testdata" / "inject", root / minor, minor)
    tally = run.run(minor, root=root)
    if options.keep:
        keep(tally, options.keep)
    found = facts(lines, checkout)
    (root / minor / FACTS).write_text(json.dumps(found, indent=1))
    older = [path for path in root.glob(f"*/{FACTS}") if _number(path.parent.name) < _number(minor)]
    if older:
        previous = max(older, key=lambda path: _number(path.parent.name))
        sys.stdout.write(f"\n{minor} differs from {previous.parent.name}:\n")
        sys.stdout.writelines(f"{line}\n" for line in differences(json.loads(previous.read_text()), found))
    return 0 if complete(tally) else 1


if __name__ == "__main__":
    sys.exit(main())
