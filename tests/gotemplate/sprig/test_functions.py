"""All functions of sprig: recorded results, signatures, and what they may read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from injector.gotemplate.sprig import txt_func_map
from tests.gotemplate.recorded import differences, sprig_cases

SIGNATURES = json.loads((Path(__file__).parents[1] / "signatures.json").read_text("utf-8"))


CASES = sprig_cases()


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_the_results_of_sprig(name: str) -> None:
    assert differences(CASES[name], "sprig") == []


def test_the_functions_are_those_of_sprig_with_their_signatures() -> None:
    assert {name: func.signature for name, func in txt_func_map().items()} == SIGNATURES


def test_functions_of_clocks_environments_and_random_numbers_are_marked() -> None:
    marked = {name for name, func in txt_func_map().items() if not func.hermetic}
    assert {"now", "env", "expandenv", "uuidv4", "genCA", "randInt", "getHostByName", "bcrypt"} <= marked
    assert not marked & {"default", "toJson", "sha256sum", "semver"}


def test_functions_read_no_environment_and_no_network_by_default() -> None:
    functions = txt_func_map()
    assert functions["env"].call("PATH") == ""
    assert functions["expandenv"].call("$PATH") == ""
    assert functions["getHostByName"].call("localhost") == ""
