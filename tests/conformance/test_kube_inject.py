"""Every case of the corpus through the command line."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from click.testing import CliRunner, Result

from injector.cli import main
from tests.conformance import compare, core, corpus

pytestmark = pytest.mark.needs("corpus")

CASES = [case for minor in corpus.TESTED for case in corpus.cases(minor) if case.kube_inject]
EX_DATAERR = 65


def test_the_corpus_has_cases_of_every_minor_that_must_pass() -> None:
    assert {case.minor for case in CASES} == set(corpus.TESTED)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.expected], ids=lambda case: f"{case.minor}-{case.name}"
)
def test_kube_inject_prints_what_istioctl_prints(case: corpus.Case) -> None:
    result = kube_inject(case)

    assert (result.exit_code, result.stderr if result.exit_code else "") == (0, "")
    assert case.expected is not None
    fault = compare.difference(core.read(result.stdout), core.documents(case.expected))
    assert not fault, f"\n{fault}"
    assert case.expected_warning in result.stderr
    assert compare.same_text(result.stdout, case.expected.read_text()), "the same documents in another text"


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.expected], ids=lambda case: f"{case.minor}-{case.name}"
)
def test_kube_inject_refuses_what_istioctl_refuses_and_prints_nothing(case: corpus.Case) -> None:
    result = kube_inject(case)

    assert (result.exit_code, result.stdout) == (EX_DATAERR, "")
    assert len(result.stderr.splitlines()) == 1
    assert case.error_fits(result.stderr)


def kube_inject(case: corpus.Case) -> Result:
    """Run the command on a case, as a user would with the files of its ConfigMaps.

    A revision with the same templates is in use, so the command does not compile them again. It parses everything else.
    """
    core.revision_of(case.settings)
    return CliRunner().invoke(main, ["kube-inject", "-f", str(case.source), *options(case.settings)])


def options(settings: corpus.Settings) -> Iterable[str]:
    """The flags that say what the control plane runs with."""
    yield from ("--injectConfigFile", str(settings.config), "--meshConfigFile", str(settings.mesh))
    if settings.values:
        yield from ("--valuesFile", str(settings.values))
    yield from ("--istio-version", settings.istio_version)
    for name, value in settings.env:
        yield from ("--set-env", f"{name}={value}")
    for version in settings.nodes:
        yield from ("--node-version", version)
    if settings.revision:
        yield from ("--revision", settings.revision)
