"""Huge pages: offered as the machine has them, and taken off its memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.client.quantity import amount
from phalanx.embedded.node.machine import machine
from phalanx.embedded.node.machine.machine import capacity, huge_pages
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from tests.embedded.node.objects import pod


def test_pages_that_are_set_aside_are_offered_and_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "huge_pages", dict)
    before = capacity(tmp_path, (), 1, {})
    for name, count in (("hugepages-2048kB", "3\n"), ("hugepages-1048576kB", "1\n"), ("hugepages-64kB", "?")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nr_hugepages").write_text(count)
    monkeypatch.setattr(machine, "huge_pages", lambda: huge_pages(tmp_path))
    found = capacity(tmp_path, (), 1, {})
    assert (amount("memory", found["hugepages-2Mi"]), amount("memory", found["hugepages-1Gi"])) == (6 << 20, 1 << 30)
    assert amount("memory", before["memory"]) - amount("memory", found["memory"]) == (6 << 20) + (1 << 30)


def test_a_volume_of_huge_pages_is_refused_with_words(tmp_path: Path) -> None:
    async def nothing(*_: object) -> None:
        return None

    one = pod(volumes=[{"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}])
    with pytest.raises(EnvironmentFault, match="medium HugePages-2Mi is not supported"):
        asyncio.run(volumes.set_up(one, tmp_path / "v", {}, nothing, nothing))  # type: ignore[arg-type]  # not called
