"""Runs the corpus through the core without pytest and prints the results: ``python tests/conformance/run.py 1.30 [NAME-PART] [-v]``.

Use it while you work on the engine: one minor takes seconds. Without a minor, all of them run. The exit status is 1 if a case fails. The
tests in this folder cover the same cases through the command line and HTTP.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from injector.cli.manifests import manifest_text
from injector.errors import InjectorError
from injector.fleet.manifests import change_documents, read_manifests
from injector.injection.tools.manifest import inject_object
from tests.conformance import compare, core, corpus, doors, undone
from tests.conformance.page import Tally, complete, counted, page

DOORS = ("kube-inject", "webhook", "text", "back")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"

Check = tuple[str, str, Callable[[], str]]
"""A door, a case's name, and what tells the fault: empty when there is none."""


def checks(minor: str) -> Iterator[Check]:
    """Every check of a minor: manifests, their text and the way back, their pods, and the reviews."""
    for case in corpus.cases(minor):
        if case.kube_inject:
            yield "kube-inject", case.name, partial(manifest_fault, case)
        if case.kube_inject and case.expected:
            yield "text", case.name, partial(text_fault, case)
            if not undone.lost(case):
                yield "back", case.name, partial(undone.fault, case)
        if case.webhook and case.expected:
            yield "webhook", case.name, partial(pods_fault, case)
    for review in corpus.webhook_cases(minor):
        yield "webhook.json", review.name, partial(review_fault, review)
    for review in corpus.denied_cases(minor):
        yield "webhook.json", review.name, partial(denied_fault, review)


def manifest_fault(case: corpus.Case) -> str:
    """Why the file is not injected as Istio does; empty when it is."""
    try:
        got, warnings = core.injected_documents(case.settings, case.source)
    except InjectorError as error:
        return "" if case.expected_error and case.error_fits(str(error)) else f"{type(error).__name__}: {error}"
    if case.expected is None:
        return f"no error, but {case.expected_error!r} was expected"
    if case.expected_warning and not any(case.expected_warning in warning for warning in warnings):
        return f"no warning {case.expected_warning!r} in {warnings}"
    return compare.difference(got, core.documents(case.expected))


def text_fault(case: corpus.Case) -> str:
    """Why what is printed of a file differs from Istio's by a byte; empty when it does not."""
    assert case.expected is not None
    revision = core.revision_of(case.settings)
    documents = change_documents(
        read_manifests([str(case.source)], recursive=False),
        lambda manifest: inject_object(revision, manifest, warn=lambda _: None),
        warn=lambda _: None,
    )
    got = "".join(manifest_text(documents, "yaml", fold=revision.behaviours.yaml_folds))
    return "" if compare.same_text(got, case.expected.read_text()) else "the same documents in another text"


def pods_fault(case: corpus.Case) -> str:
    """Why a pod of one of the file's workloads is not injected as Istio does."""
    assert case.expected is not None
    pairs = doors.pairs(case.minor, core.documents(case.source), core.documents(case.expected))
    got = [core.patched_pod(case.settings, pod, namespace) for pod, namespace, _ in pairs]
    want = [golden for _, _, golden in pairs]
    return compare.difference([doors.common(case.minor, pod) for pod in got], want)


def review_fault(case: corpus.WebhookCase) -> str:
    """Why the pod of a review is not patched as Istio does."""
    return compare.difference([core.patched_pod(case.settings, case.pod, case.namespace)], [case.patched])


def denied_fault(case: corpus.WebhookCase) -> str:
    """Why the pod of a review is not refused."""
    try:
        core.patched_pod(case.settings, case.pod, case.namespace)
    except InjectorError:
        return ""
    return "it is not refused"


def run(minor: str, part: str = "", *, verbose: bool = False) -> Tally:
    """Run and print one minor."""
    started, passes, failed = time.perf_counter(), [], []
    for door, name, check in checks(minor):
        if part not in name:
            continue
        try:
            fault = check()
        except Exception:  # noqa: BLE001 -- the engine under work may fail in any way: it is what is printed
            fault = traceback.format_exc(limit=None if verbose else -3)
        passes.append(("webhook" if door == "webhook.json" else door, not fault))
        if fault:
            failed.append(f"{door} {name}")
            print(f"--- {minor} {door} {name}\n{fault}")
    for name in failed:
        print(f"FAILED {minor} {name}")
    seconds = time.perf_counter() - started
    print(f"{minor}: {len(passes) - len(failed)} passed, {len(failed)} failed in {seconds:.1f} s")
    result = counted(passes)
    return Tally(minor, *(result.get(door, (0, 0)) for door in DOORS), failed=tuple(failed))


def main() -> int:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minor", nargs="?", help="an Istio minor, such as 1.30; default: all that must pass")
    parser.add_argument("part", nargs="?", default="", help="only cases whose name has this part")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    parser.add_argument("-v", "--verbose", action="store_true", help="whole tracebacks")
    options = parser.parse_args()
    if not corpus.present():
        print(corpus.ABSENT)
        return 0
    minors = [options.minor] if options.minor else list(corpus.TESTED)
    tallies = [run(minor, options.part, verbose=options.verbose) for minor in minors]
    if options.write:
        PAGE.write_text(page(tallies))
    return 0 if all(map(complete, tallies)) else 1


if __name__ == "__main__":
    sys.exit(main())
