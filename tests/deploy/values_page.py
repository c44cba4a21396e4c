"""Writes the comments of the chart's values.yaml, and the table of values in deploy/README.md, from the schema and the defaults."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.deploy.rendering import CHART, DEPLOY

PAGE: Final = DEPLOY / "README.md"
MARK: Final = "<!-- values: python -m tests.deploy.values_page -->\n"
HEAD: Final = "\n| value | default | meaning |\n|---|---|---|\n"


def rows(properties: dict[str, Any], defaults: dict[str, Any], at: str = "") -> Iterator[str]:
    """The lines of the table: one for each value that holds no others."""
    for name, schema in properties.items():
        if name not in defaults:
            continue
        path, value = f"{at}{name}", defaults[name]
        if "properties" in schema and isinstance(value, dict) and value:
            yield from rows(schema["properties"], value, f"{path}.")
        else:
            choice = (
                "" if "enum" not in schema else " One of " + ", ".join(f"`{choice}`" for choice in schema["enum"]) + "."
            )
            yield f"| `{path}` | `{json.dumps(value)}` | {schema['description'].replace('|', chr(92) + '|')}{choice} |\n"


def page(text: str) -> str:
    """The page with the table as it must be."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    return text.partition(MARK)[0] + MARK + HEAD + "".join(rows(schema["properties"], defaults))


def commented(text: str) -> str:
    """The defaults, with the description of each value of the schema above it."""
    properties = [json.loads((CHART / "values.schema.json").read_text())["properties"]]
    lines = []
    for line in text.splitlines():
        match = re.fullmatch(r"( *)([A-Za-z]+):.*", line)
        if line.lstrip().startswith("#"):
            continue
        if match:
            depth = len(match[1]) // 2
            schema = (properties[depth] if depth < len(properties) else {}).get(match[2], {})
            properties[depth + 1 :] = [schema.get("properties", {})]
            if "description" in schema:
                lines += textwrap.wrap(
                    schema["description"], 110, initial_indent=f"{match[1]}# ", subsequent_indent=f"{match[1]}# "
                )
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    values = CHART / "values.yaml"
    values.write_text(commented(values.read_text()))
    PAGE.write_text(page(PAGE.read_text()))
