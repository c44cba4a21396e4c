from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from injector.webhook.status.health import HealthFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


async def follow(file: HealthFile, steps: list[Callable[[], object]], faults: list[str] | None = None) -> list[float]:
    """Write a file until the steps, one after each writing, are done; the pauses that it made."""
    pauses: list[float] = []
    said = iter(faults or [])

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        steps[len(pauses) - 1]()
        if len(pauses) == len(steps):
            raise asyncio.CancelledError

    with suppress(asyncio.CancelledError):
        await file.follow(lambda: next(said, ""), sleep=pause)
    return pauses


async def test_the_file_is_written_at_once_and_each_interval(tmp_path: Path) -> None:
    file = HealthFile(tmp_path / "health", 2.0)
    found: list[str] = []

    def take() -> None:
        found.append(file.path.read_text())
        file.path.unlink()

    pauses = await follow(file, [take, take, take])

    assert (found, pauses) == (["ok"] * 3, [2.0] * 3)


async def test_it_is_not_written_while_the_injector_does_not_live(tmp_path: Path) -> None:
    file = HealthFile(tmp_path / "health", 2.0)
    found: list[bool] = []

    def look() -> None:
        found.append(file.path.exists())
        file.path.unlink(missing_ok=True)

    await follow(file, [look] * 3, ["", "the event loop is stuck", ""])

    assert found == [True, False, True]


async def test_why_it_cannot_be_written_is_told_once_until_it_could_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = HealthFile(tmp_path / "folder" / "health", 2.0)

    def nothing() -> None:
        pass

    def take_away() -> None:
        file.path.unlink()
        file.path.parent.rmdir()

    await follow(file, [nothing, nothing, file.path.parent.mkdir, take_away, nothing])

    expected = f"cannot write --healthCheckFile {file.path}: No such file or directory"
    assert [each.getMessage() for each in caplog.records] == [expected] * 2
