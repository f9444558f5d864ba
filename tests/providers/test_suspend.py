"""Slurm's ResumeProgram and SuspendProgram: how they are called, and which nodes they switch."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.local.node_groups.backends import hostlist
from phalanx.client.kind import CONFIG_MAPS, NODES
from phalanx.providers.counted import suspend
from phalanx.providers.counted.calls import CountedProvider
from phalanx.providers.counted.suspend import PoweredNodes, PowerSettings
from phalanx.providers.provider import ProviderError
from tests.kube.double import Api, Client, node


class Site:
    """Programs that write how they were called, and the provider that calls them."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.api, self.calls = Api(), folder / "calls"
        for name in ("resume", "suspend"):
            (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n[ ! -e {folder}/broken ]\n')
            (folder / name).chmod(0o755)
        settings = PowerSettings(
            nodes=tuple(f"c{number}" for number in range(1, 5)),
            resume_program=str(folder / "resume"),
            suspend_program=str(folder / "suspend"),
            user="root" if os.geteuid() == 0 else os.environ["USER"],
            resume_timeout_s=60.0,
            suspend_timeout_s=30.0,
            resume_rate=0,
            suspend_rate=0,
            excluded=frozenset(),
        )
        self.settings = replace(settings, **changes)

    def provider(self, tasks: asyncio.TaskGroup) -> CountedProvider:
        client: Any = Client(self.api)
        nodes = self.api.objects[NODES].get
        return CountedProvider(
            PoweredNodes(self.settings, hostlist, client, nodes, ("group", "g"), tasks), lambda name: ""
        )

    def join(self, name: str) -> None:
        self.api.put(NODES, node(name))

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def play(site: Site, scene: Callable[[CountedProvider], Any]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            await scene(site.provider(tasks))

    asyncio.run(run())


def test_programs_are_called_with_a_hostlist_as_slurmctld_does(tmp_path: Path) -> None:
    site = Site(tmp_path, excluded=frozenset({"c2"}))
    site.join("c2")

    async def scene(provider: CountedProvider) -> None:
        assert [each.name for each in (await provider.status("g")).requested] == []
        assert site.api.objects[NODES]["c2"]["metadata"]["labels"]["group"] == "g", "it was on, and gets the label"
        assert await provider.scale("g", ["g-1", "g-2", "g-3", "g-4"], ()) == {
            "g-4": "no node of c[1-4] is switched off"
        }
        assert site.called() == ["resume c[1,3-4]"]
        site.join("c1")
        assert [each.name for each in (await provider.status("g")).requested] == ["g-2", "g-3"]
        assert site.api.objects[NODES]["c1"]["metadata"]["labels"]["group"] == "g"
        assert await provider.scale("g", (), ["c1", "g-2", "c2"]) == {"c2": "SuspendExcNodes contains it"}
        assert site.called()[1:] == ["suspend c[1,3]"], "a node that runs, and one that was cancelled"
        await provider.scale("g", (), ["c1"])
        assert len(site.called()) == 2, "a repeated call changes nothing"

    play(site, scene)


def test_a_node_is_switched_on_again_after_suspend_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, nodes=("c1",))
    clock = [1000.0]
    monkeypatch.setattr("phalanx.providers.counted.suspend.time.time", lambda: clock[0])

    async def scene(provider: CountedProvider) -> None:
        assert await provider.scale("g", ["g-1"], ()) == {}
        await provider.scale("g", (), ["g-1"])
        clock[0] += 29.0
        assert await provider.scale("g", ["g-2"], ()) == {"g-2": "no node of c1 is switched off"}
        clock[0] += 1.0
        assert await provider.scale("g", ["g-3"], ()) == {}
        assert site.called() == ["resume c1", "suspend c1", "resume c1"]

    play(site, scene)


def test_a_program_that_fails_fails_the_request_and_its_nodes_stay_free(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "broken").touch()

    async def scene(provider: CountedProvider) -> None:
        for _ in range(2):
            with pytest.raises(ProviderError, match=r"resume c\[1-2\] ended with status 1"):
                await provider.scale("g", ["g-1", "g-2"], ())
        assert (await provider.status("g")).requested == ()

    play(site, scene)


@pytest.mark.slow
def test_rates_are_nodes_per_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, resume_rate=3, suspend_rate=1)
    monkeypatch.setattr(suspend, "MINUTE_S", 1.5)

    async def scene(provider: CountedProvider) -> None:
        await provider.scale("g", ["g-1", "g-2", "g-3", "g-4"], ())
        assert site.called() == ["resume c[1-3]"]
        assert len((await provider.status("g")).requested) == 4
        while len(site.called()) < 2:  # noqa: ASYNC110 (a file tells nobody)
            await asyncio.sleep(0.02)
        assert site.called()[1] == "resume c4"
        with pytest.raises(ProviderError, match="SuspendRate allows 1 nodes per minute; 1 wait"):
            await provider.scale("g", (), ["g-1", "g-2"])
        assert site.called()[2:] == ["suspend c1"]

    play(site, scene)


def test_states_are_noted_for_sinfo_and_for_the_next_scheduler(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.api.put(
        CONFIG_MAPS, {"metadata": {"name": "phalanx-slurm", "namespace": "kube-system"}, "data": {"site": "{}"}}
    )

    def noted() -> dict[str, str]:
        data: dict[str, str] = site.api.objects[CONFIG_MAPS]["kube-system/phalanx-slurm"]["data"]
        return {key: text.split()[0] for key, text in data.items() if key != "site"}

    async def before(provider: CountedProvider) -> None:
        await provider.scale("g", ["g-1", "g-2"], ())
        await provider.scale("g", (), ["g-2"])
        assert noted() == {"power.c1": "resuming", "power.c2": "suspending"}

    async def after(provider: CountedProvider) -> None:
        assert [each.name for each in (await provider.status("g")).requested] == ["g-1"]
        await provider.scale("g", ["g-3"], ())
        assert site.called()[-1] == "resume c3", "SuspendTimeout of c2 has not passed"
        site.join("c1")
        await provider.status("g")
        assert noted() == {"power.c2": "suspending", "power.c3": "resuming"}

    for scene in (before, after):
        play(site, scene)
