"""deploy/README.md tells of the chart as it is: every value, every base, and commands that Helm takes."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from tests.deploy.rendering import BASES, CHART, ROOT, helm, rendered
from tests.deploy.values_page import MARK, PAGE, commented, page, rows

TEXT = PAGE.read_text()


def test_the_table_has_the_values_of_the_schema() -> None:
    assert TEXT.count(MARK) == 1
    assert page(TEXT) == TEXT, "run python -m tests.deploy.values_page"


def test_each_value_has_the_description_of_the_schema_as_its_comment() -> None:
    text = (CHART / "values.yaml").read_text()

    assert commented(text) == text, "run python -m tests.deploy.values_page"
    assert "# Port of the webhook in the pod.\n  webhook: 9443\n" in text


def test_a_row_has_the_path_the_default_and_the_choice() -> None:
    schema = {"a": {"properties": {"b": {"description": "What b is.", "enum": ["x", "y"]}}}}

    assert list(rows(schema, {"a": {"b": "x"}})) == ['| `a.b` | `"x"` | What b is. One of `x`, `y`. |\n']


def test_every_base_is_told_of() -> None:
    named = set(re.findall(r"`deploy/kustomize/([a-z-]+)`", TEXT))

    assert named == {folder.name for folder in BASES.iterdir() if folder.is_dir()} - {"files"}


def test_the_example_is_a_release() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)

    assert rendered(yaml.safe_load(example))


@pytest.mark.parametrize("line", re.findall(r"^helm (?:install|upgrade) .*", TEXT, re.MULTILINE))
def test_a_command_of_helm_renders(line: str) -> None:
    _, _, *arguments = shlex.split(line)
    others = {"--create-namespace", "--reset-then-reuse-values"}  # flags that ``helm template`` does not have
    command = [
        str(CHART) if argument == "deploy/chart" else argument for argument in arguments if argument not in others
    ]

    done = helm("template", *command)

    assert done.returncode == 0, done.stderr


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)

    assert links
    assert [link for link in links if not (ROOT / "deploy" / link).exists()] == []
