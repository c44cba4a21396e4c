from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.cases import read_cases

TESTS = Path(__file__).parent


def test_all_cases_belong_to_a_test() -> None:
    files = list(TESTS.rglob("test_*.yaml"))
    unused = [
        f"{path.name}: {name}"
        for path in files
        for name in read_cases(path)
        if f"def test_{name}(" not in path.with_suffix(".py").read_text()
    ]

    assert (bool(files), unused) == (True, [])


def test_minors_are_read_and_cases_cannot_get_lost(tmp_path: Path) -> None:
    file = tmp_path / "test_x.yaml"
    file.write_text("is_known:\n- [v1.30, 'v1.30', 1.30]\n")
    assert read_cases(file) == {"is_known": [[(1, 30), "v1.30", 1.3]]}

    twice = tmp_path / "test_y.yaml"
    twice.write_text("is_known: [a]\nis_known: [b]\n")
    with pytest.raises(yaml.YAMLError, match="a key occurs twice"):
        read_cases(twice)
