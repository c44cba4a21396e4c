from __future__ import annotations

import json
from pathlib import Path

from injector.gotemplate.sprig import txt_func_map

SIGNATURES = json.loads((Path(__file__).parents[1] / "signatures.json").read_text("utf-8"))


def test_the_functions_are_those_of_sprig_with_their_signatures() -> None:
    assert {name: func.signature for name, func in txt_func_map().items()} == SIGNATURES


def test_what_depends_on_more_than_its_arguments_says_so() -> None:
    marked = {name for name, func in txt_func_map().items() if not func.hermetic}
    assert {"now", "env", "expandenv", "uuidv4", "genCA", "randInt", "getHostByName", "bcrypt"} <= marked
    assert not marked & {"default", "toJson", "sha256sum", "semver"}


def test_no_template_reads_the_processs_environment_or_the_network_by_default() -> None:
    functions = txt_func_map()
    assert functions["env"].call("PATH") == ""
    assert functions["expandenv"].call("$PATH") == ""
    assert functions["getHostByName"].call("localhost") == ""
