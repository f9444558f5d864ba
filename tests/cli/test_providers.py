"""`cli/local/node_groups/providers.py`: the provider of each group."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from phalanx.cli.local.node_groups import providers
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.providers.autoscaler import AutoscalerProvider
from phalanx.providers.provider import EmptyNodes

MACHINES = "machines: {kind: MachineDeployment, namespace: default, name: gpu}"


def groups(folder: Path, *texts: str) -> tuple[GroupInFile, ...]:
    file = folder / "groups.yaml"
    file.write_text("nodeGroups:\n" + "".join(f"- {{{text}}}\n" for text in texts))
    return read_node_groups(file)


def machines(folder: Path, more: str = "") -> GroupInFile:
    (found,) = groups(folder, f"name: gpu, provider: {{{MACHINES}}}{more}")
    return found


def cache(*_: Any) -> Any:
    return SimpleNamespace(objects={}, subscribe=lambda take: None)


def provided(found: tuple[GroupInFile, ...]) -> Any:
    async def play() -> Any:
        async with asyncio.TaskGroup() as tasks:
            made = await provisioning(found, SimpleNamespace(), cache, tasks)
            for task in list(getattr(tasks, "_tasks", ())):
                task.cancel()
        return made

    return asyncio.run(play())


def test_without_groups_there_is_no_provisioning() -> None:
    assert provided(()) is None


def test_each_group_gets_its_provider_and_autoscaled_groups_share_one(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        "name: a, provider: {autoscaler: {}}, allocatable: {cpu: 8}, nodeLabel: pool=a",
        "name: rack, provider: {exec: {command: [/bin/true]}}, allocatable: {cpu: 8}",
        "name: b, provider: {autoscaler: {}}, allocatable: {cpu: 8}, nodeLabel: pool=b",
    )
    made = provided(found)
    by_name = {name: calls._provider for name, calls in made._lines.items()}
    assert made.group_labels[("pool", "a")] == "a"
    assert set(made.group_labels.values()) == {"a", "b", "rack"}
    assert isinstance(by_name["rack"], EmptyNodes)
    assert by_name["a"] is by_name["b"]
    assert isinstance(by_name["a"], AutoscalerProvider)


def test_the_provider_id_of_a_node() -> None:
    nodes: Any = SimpleNamespace(objects={"a": {"spec": {"providerID": "aws://1"}}, "b": {"spec": None}, "c": {}})
    assert [providers.provider_id(nodes, name) for name in ("a", "b", "c", "none")] == ["aws://1", "", "", ""]
