"""`agent/starting/pod_volumes.py`: volumes are set up once, and a pod without tokens has no timer for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.agent.starting.pod_volumes import PodVolumes
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="")


def of_pod(folder: Path, owner: Any = None) -> PodVolumes:
    around: Any = SimpleNamespace(
        pod_dir=lambda uid: folder / uid, owner=lambda namespace: owner, allocatable={}, connection=None
    )
    return PodVolumes(pod(), RECORD, around)


def test_volumes_are_set_up_until_that_succeeds_and_then_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = list[bool]()

    async def set_up(shown: Any, root: Path, *parts: Any, confined: bool) -> None:
        attempts.append(confined)
        if len(attempts) == 1:
            raise EnvironmentFault("no ConfigMap")

    monkeypatch.setattr(volumes, "set_up", set_up)
    found = of_pod(tmp_path)
    with pytest.raises(EnvironmentFault, match="no ConfigMap"):
        asyncio.run(found.set_up(pod(), pod()))
    for _ in range(2):
        asyncio.run(found.set_up(pod(), pod()))
    assert attempts == [False, False]


def test_the_volumes_of_a_user_are_confined_and_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[tuple[Path, int, int]]()

    async def set_up(shown: Any, root: Path, *parts: Any, confined: bool) -> None:
        assert confined

    monkeypatch.setattr(volumes, "set_up", set_up)
    monkeypatch.setattr(volumes, "give", lambda *about: given.append(about))
    asyncio.run(of_pod(tmp_path, SimpleNamespace(user=1000, group=100)).set_up(pod(), pod()))
    assert [(user, group) for _, user, group in given] == [(1000, 100)]


def test_a_pod_without_tokens_renews_none(tmp_path: Path) -> None:
    assert asyncio.run(of_pod(tmp_path).renew_tokens(pod(), 100.0)) is None
