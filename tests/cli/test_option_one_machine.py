"""The node groups of `phalanx up`: options and a file together, checked before anything starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.cli.local.node_groups.option import local_provisioning
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.errors import PhalanxError
from phalanx.model.event import NodeGroupSeen

FILE = """
nodeGroups:
- {name: a100, provider: {autoscaler: {}}, nodeLabel: pool=a100, allocatable: {cpu: 8}}
- {name: rack, provider: {exec: {command: [/bin/true]}}, allocatable: {cpu: 8}}
"""


def written(folder: Path, text: str = FILE) -> Path:
    file = folder / "groups.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("before", "after", "options", "error"),
    [
        ("cpu: 8}}\n- {name: rack", "cpu: 8}, idle: 5m}\n- {name: rack", (), ":3: nodeGroups[0].idle: the autoscaler"),
        ("{exec: {command: [/bin/true]}}", "{cloud: {}}", (), ":4: nodeGroups[1].provider: name one provider"),
        ("", "", ("rack=0,max=2",), "a node group with this name too. Give each of them its own name"),
        ("pool=a100", "phalanx.dev/node-group=spot", ("spot=0",), "which is the label of --node-group spot"),
    ],
)
def test_bad_groups_are_refused_before_anything_starts(
    tmp_path: Path, before: str, after: str, options: tuple[str, ...], error: str
) -> None:
    with pytest.raises(PhalanxError) as caught:
        LocalMachines(node_group=options, node_groups=written(tmp_path, FILE.replace(before, after, 1)))
    assert error in str(caught.value)


def test_the_control_plane_gets_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert f"--node-groups={tmp_path}/groups.yaml" in LocalMachines(node_groups=Path("groups.yaml")).options()


class Server:
    """An API server in which every namespace exists."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, kind: Any, body: Any, namespace: str = "") -> Any:
        self.asked.append(f"{kind.plural}/{body['metadata']['name']}")
        raise ApiRefusal(409, "AlreadyExists", "it exists")


def test_all_groups_are_offered_and_namespaces_of_requests_are_made(tmp_path: Path) -> None:
    async def play() -> None:
        server, cache = Server(), cast(Informer, SimpleNamespace(subscribe=lambda take: None, objects={}))
        async with asyncio.TaskGroup() as tasks:
            found = await local_provisioning(
                ("spot=0x8gpu,max=2",), written(tmp_path), cast(Connection, server), lambda kind: cache, tasks
            )
        assert found is not None
        names = [event.group.name for event in found.events() if isinstance(event, NodeGroupSeen)]
        assert sorted(names) == ["a100", "rack", "spot"]
        assert server.asked == ["namespaces/phalanx-node-requests"]
        assert found.group_labels[("pool", "a100")] == "a100"

    asyncio.run(play())
