"""A disk that is really full: what lets go is always taken, and all else again as soon as there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow
PATH = "/api/v1/namespaces/default"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 72 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=72m", "tmpfs", place]).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "data": {"x": "x" * 900_000}}


def test_deletes_go_on_when_the_disk_is_full(small_disk: Path) -> None:
    async def run() -> None:
        async with InProcess.started(small_disk) as api:
            space = {"metadata": {"name": "full"}}
            await api.make("/api/v1/namespaces", space)
            held = {"finalizers": ["example.com/wait"]}
            await api.make(f"{PATH}/configmaps", config_map("held", **held))
            await api.make("/api/v1/namespaces/full/configmaps", config_map("inner"))
            count = 0
            while (answer := await api.ask("POST", f"{PATH}/configmaps", config_map(f"c{count}"))).code == 201:
                count += 1
            assert (answer.code, answer.body["reason"]) == (507, "InsufficientStorage")
            assert count > 5

            async def delete(path: str) -> Any:
                return await api.ask("DELETE", path)

            marked = await delete(f"{PATH}/configmaps/held")
            assert (marked.code, "deletionTimestamp" in marked.body["metadata"]) == (200, True)
            patch = {"metadata": {"finalizers": []}}
            media = "application/merge-patch+json"
            assert (await api.ask("PATCH", f"{PATH}/configmaps/held", patch, media)).code == 200
            assert (await delete(f"{PATH}/configmaps/held")).code == 404
            assert (await delete("/api/v1/namespaces/full")).code == 200  # a mark: its controller empties it
            assert (await delete("/api/v1/namespaces/full/configmaps/inner")).code == 200
            codes = {(await delete(f"{PATH}/configmaps/c{number}")).code for number in range(count)}
            assert codes == {200}

            async def taken() -> bool:
                return (await api.ask("POST", f"{PATH}/configmaps", {"metadata": {"name": "after"}})).code == 201

            async with asyncio.timeout(240):
                while not await taken():  # noqa: ASYNC110 - the room is looked for once a second
                    await asyncio.sleep(0.1)
        async with InProcess.started(small_disk) as api:  # and nothing comes back
            items = (await api.ask("GET", f"{PATH}/configmaps")).body["items"]
            assert [one["metadata"]["name"] for one in items] == ["after"]

    asyncio.run(run())


def test_a_past_that_is_larger_than_the_room_for_deletions_is_let_go(small_disk: Path) -> None:
    """The history of deletions is kept for watches, and is dropped at the first deletion on the full disk."""

    async def run() -> None:
        async with InProcess.started(small_disk) as api:
            for number in range(14):
                await api.make(f"{PATH}/configmaps", config_map(f"c{number}"))
                assert (await api.ask("DELETE", f"{PATH}/configmaps/c{number}")).code == 200
            await api.make(f"{PATH}/configmaps", config_map("left"))
            fill(small_disk)
            count = 0
            while (answer := await api.ask("POST", f"{PATH}/configmaps", config_map(f"more{count}"))).code == 201:
                count += 1  # the log has some room yet
            assert answer.code == 507
            assert (await api.ask("DELETE", f"{PATH}/configmaps/left")).code == 200

    asyncio.run(run())


def test_deletes_go_on_when_others_take_the_room_that_was_kept_for_them(small_disk: Path) -> None:
    """The reserve is given up for deletions, and a program that writes all the time takes what is free at once."""

    async def run() -> None:
        async with InProcess.started(small_disk) as api:
            for number in range(8):
                await api.make(f"{PATH}/configmaps", config_map(f"c{number}"))
            for number in range(40):
                await api.make(f"{PATH}/configmaps", {"metadata": {"name": f"small{number}"}})
            fill(small_disk)
            count = 0
            while (answer := await api.ask("POST", f"{PATH}/configmaps", config_map(f"more{count}"))).code == 201:
                count += 1
            assert answer.code == 507
            for number in range(40):
                fill(small_disk, f"filler{number}")
                assert (await api.ask("DELETE", f"{PATH}/configmaps/small{number}")).code == 200, number

    asyncio.run(run())


def fill(disk: Path, name: str = "filler") -> None:
    """Take all the room that is left."""
    state = os.statvfs(disk)
    with (disk / name).open("wb") as file:
        if state.f_bavail:
            os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize)
