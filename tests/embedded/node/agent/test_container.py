"""What a new agent makes of a container that the old one was about to start when it was killed."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from phalanx.embedded.node.agent.container import Container
from phalanx.embedded.node.container.attempt import Attempt, Planned, RunSpec
from phalanx.embedded.node.container.durable import write_whole
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="")


def about_to_start(folder: Path) -> Attempt:
    folder.mkdir()
    attempt = Attempt(folder / "main", 0)
    attempt.folder.mkdir()
    write_whole(attempt.path("spec.json"), msgspec.json.encode(RunSpec(argv=("true",), env={})))
    return attempt


def found_again(folder: Path, changed: Any) -> Container:
    around: Any = SimpleNamespace(pod_dir=lambda uid: folder)
    return Container("main", pod(), RECORD, around, changed)


def test_nothing_was_started_so_it_is_started_now(tmp_path: Path) -> None:
    attempt = about_to_start(tmp_path / "u")
    container = found_again(tmp_path / "u", lambda: None)
    assert container.known.state is None
    assert container.refresh().state is None
    assert attempt.path("exit.json").exists()  # a late shim starts no program


def test_a_shim_that_has_begun_is_waited_for(tmp_path: Path) -> None:
    attempt = about_to_start(tmp_path / "u")

    async def run() -> None:
        changed = asyncio.Event()
        with attempt.path("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            container = found_again(tmp_path / "u", changed.set)
            assert container.known.state == Planned()
        async with asyncio.timeout(240):
            await changed.wait()
        assert container.refresh().state is None

    asyncio.run(run())
