from __future__ import annotations

import pytest

from injector.gotemplate.budget import MAX_SIZE, check_size
from injector.gotemplate.errors import FuncError


def test_a_size_within_the_limit_passes() -> None:
    check_size(MAX_SIZE)


def test_a_size_beyond_it_is_refused_by_name() -> None:
    with pytest.raises(FuncError, match="repeat too large: 1048577 > 1048576"):
        check_size(MAX_SIZE + 1, "repeat")
