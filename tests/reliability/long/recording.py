"""Record what a running istiod answers, for ``tests/differential/recorded/injectors``.

    scripts/reliability recording --folders FOLDER --minor 1.31
    scripts/reliability recording --istiod https://istiod.istio-system.svc:15017/inject --ca ca.crt \\
        --revision FOLDER/plain --output 1.31.jsonl.gz

The first command writes the control planes of ``tests/differential/injectors`` for a minor: a folder for each, with the keys of the
ConfigMaps and ``revision.yaml``, as istiod has to run with them. The second asks one istiod about the pods of its folder and about random
ones, and appends the answers to the output. A folder of your own gets random pods only. An answer that is not always the same is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from injector.errors import InjectorError
from injector.istio.webhooks.paths import PATH_PREFIX
from tests.differential.injectorcases import Recording, questions, read, write
from tests.differential.injectors import Case, ControlPlane, random_cases
from tests.differential.istiods import ask
from tests.reliability.long.istiodoptions import PROXY_CONFIGS, Target, add_options, targets

RANDOM = 60
RUNS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Record answers, or write folders; the exit status tells whether that was possible."""
    options_of = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options_of.add_argument("--folders", type=Path, metavar="FOLDER", help="write the control planes there")
    options_of.add_argument("--minor", help="the minor to write them for, such as 1.31")
    options_of.add_argument("--output", type=Path, metavar="FILE", help="append the answers to this file")
    options_of.add_argument(
        "--pods", type=int, default=RANDOM, help="random pods for each istiod (default: %(default)s)"
    )
    add_options(options_of)
    options = options_of.parse_args(arguments)
    if options.folders:
        if not options.minor:
            options_of.error("--folders needs --minor")
        write_folders(options.folders, options.minor)
        return 0
    if not options.output or not options.istiod:
        options_of.error("give --istiod, --revision and --output, or --folders and --minor")
    recordings = read(options.output) if options.output.exists() else []
    for target, name in zip(
        targets(options_of, options), (revision.name for revision in options.revision), strict=True
    ):
        try:
            recordings.append(record(target, name, options.pods))
        except InjectorError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        write(options.output, recordings)
        print(f"{len(recordings[-1].answers)} answers of Istio {target.release} for {name}")
    return 0


def record(target: Target, name: str, pods: int) -> Recording:
    """Ask an istiod about the cases of its control plane and about random pods. Raises InjectorError."""
    plane, own = known(target.plane, name)
    path = next((case.path for case in own), PATH_PREFIX)
    cases = [*own, *(replace(case, path=path) for case in random_cases(plane, f"{plane.minor} {name}", pods))]
    replies = ask(target.options, cases, RUNS)
    answers = [(case, answer) for case, answer in zip(cases, replies, strict=True) if answer is not None]
    return Recording(target.release, target.commit, time.strftime("%Y-%m-%d", time.gmtime()), name, plane, answers)


def known(plane: ControlPlane, name: str) -> tuple[ControlPlane, list[Case]]:
    """Return a control plane of the project with its cases, if this is one; its nodes have names there."""
    for question in questions(plane.minor):
        if folder_name(question.name) == name and texts(question.plane) == texts(plane):
            return question.plane, question.cases
    return plane, []


def texts(plane: ControlPlane) -> tuple[str, str, str]:
    """Return the keys of the ConfigMaps."""
    return plane.config, plane.values, plane.mesh


def folder_name(name: str) -> str:
    """Return the name of the folder of a control plane."""
    return name.replace(" ", "-")


def write_folders(folder: Path, minor: str) -> None:
    """Write the control planes of a minor."""
    for question in questions(minor):
        plane, place = question.plane, folder / folder_name(question.name)
        place.mkdir(parents=True, exist_ok=True)
        settings = {
            "istioVersion": minor,
            "env": dict(plane.env),
            "revision": plane.name or "default",
            "nodeVersions": list(plane.nodes.values()),
            "namespaces": dict(plane.namespaces),
        }
        for key, text in zip(("config", "values", "mesh"), texts(plane), strict=True):
            (place / key).write_text(text)
        (place / "revision.yaml").write_text(yaml.safe_dump(settings))
        if plane.proxy_configs:
            items = [
                {"apiVersion": "networking.istio.io/v1beta1", "kind": "ProxyConfig", **proxy_config}
                for proxy_config in plane.proxy_configs
            ]
            (place / PROXY_CONFIGS).write_text("---\n".join(json.dumps(item) + "\n" for item in items))


if __name__ == "__main__":
    sys.exit(main())
