"""Runs the corpus through the core and prints what passes: ``python tests/conformance/run.py 1.30 [NAME-PART] [-v]``.

Seconds instead of minutes, and no pytest: for whoever works on the engine. Without a minor, all that must pass; exit
status 1 when a case fails. The tests beside it go through the command line and through HTTP.
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

from injector.errors import InjectorError
from tests.conformance import compare, core, corpus, doors

Check = tuple[str, str, Callable[[], str]]
"""A door, a case's name, and what tells the fault: empty when there is none."""


def checks(minor: str) -> Iterator[Check]:
    """Every check of a minor: manifests, their pods, and the reviews of ``webhook.json``."""
    for case in corpus.cases(minor):
        if case.kube_inject:
            yield "kube-inject", case.name, partial(manifest_fault, case)
        if case.webhook and case.expected:
            yield "webhook", case.name, partial(pods_fault, case)
    if (corpus.ROOT / minor / "webhook.json").exists():
        for review in corpus.webhook_cases(minor):
            yield "webhook.json", review.name, partial(review_fault, review)


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


def run(minor: str, part: str, *, verbose: bool) -> bool:
    """Run and print one minor; whether all passed."""
    started, passed, failed = time.perf_counter(), 0, []
    for door, name, check in checks(minor):
        if part not in name:
            continue
        try:
            fault = check()
        except Exception:  # noqa: BLE001 -- the engine under work may fail in any way: it is what is printed
            fault = traceback.format_exc(limit=None if verbose else -3)
        if fault:
            failed.append(f"{door} {name}")
            print(f"--- {minor} {door} {name}\n{fault}")
        else:
            passed += 1
    for name in failed:
        print(f"FAILED {minor} {name}")
    print(f"{minor}: {passed} passed, {len(failed)} failed in {time.perf_counter() - started:.1f} s")
    return not failed


def main() -> int:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minor", nargs="?", help="an Istio minor, such as 1.30; default: all that must pass")
    parser.add_argument("part", nargs="?", default="", help="only cases whose name has this part")
    parser.add_argument("-v", "--verbose", action="store_true", help="whole tracebacks")
    options = parser.parse_args()
    if not corpus.present():
        print(corpus.ABSENT)
        return 0
    minors = [options.minor] if options.minor else list(corpus.MINORS)
    results = [run(minor, options.part, verbose=options.verbose) for minor in minors]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
