"""Nodes with State=CLOUD: what sinfo, scontrol and sbatch see of nodes that are switched off, on and off again."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from phalanx.providers.counted import suspend
from phalanx.slurm.cluster import admission, site
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.commands.cluster import sinfo
from phalanx.slurm.commands.cluster.sinfo_rows import document
from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.nodes import Used, nodes, with_cloud
from phalanx.slurm.submission.creation import hardware

CONF = """
NodeName=DEFAULT CPUs=8 RealMemory=16000
NodeName=login
NodeName=c[1-5] State=CLOUD Gres=gpu:2 Feature=big
PartitionName=batch Nodes=c[1-5] Default=YES State=UP
"""


class Fake:
    """An API server with the nodes c1, which is up, and c2, which is not ready yet, and without pods."""

    sight, of_job = 0, False

    def call(self, method: str, path: str, *_: Any, **__: Any) -> bytes:
        found = []
        for name, ready in (("c1", "True"), ("c2", "False")):
            conditions = [{"type": "Ready", "status": ready}]
            status = {"conditions": conditions, "allocatable": {"cpu": "8", "memory": "16000Mi"}}
            found.append({"metadata": {"name": name}, "status": status})
        return json.dumps({"items": found}).encode()

    def list(self, path: str, **_: str) -> bytes:
        return b'{"items": []}'


@pytest.fixture
def here() -> site.Site:
    found, _ = read_conf(CONF)
    until = int(time.time()) + 60
    noted = {"c2": "resuming 1 g-1", "c3": "resuming 1 g-2", "c4": f"suspending {until}", "c5": "suspending 1"}
    found.read = {"data": {f"{site.POWER}{name}": text for name, text in noted.items()}}
    return found


def shown(here: site.Site, capsys: pytest.CaptureFixture[str], **said: str) -> list[str]:
    api: Any = Fake()
    sinfo._show(api, here, {"noheader": None, **said}, sinfo._wanted(said))
    return capsys.readouterr().out.splitlines()


def test_sinfo_shows_the_suffixes_of_slurm(here: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(here, capsys, format="%D %t %N") == ["2 alloc# c[2-3]", "1 idle c1", "1 idle% c4", "1 idle~ c5"]
    assert shown(here, capsys, format="%T %N", states="idle") == ["idle c1", "idle% c4", "idle~ c5"]
    assert shown(here, capsys, format="%T %N", states="powered_down") == ["idle~ c5"]
    assert shown(here, capsys, format="%N", states="cloud", summarize="") == ["c[1-5]"]
    assert shown(here, capsys, Format="statecomplete:40,nodelist:8")[-1].split() == ["idle+cloud+powered_down", "c5"]


def test_other_commands_see_cloud_nodes(here: site.Site) -> None:
    api: Any = Fake()
    flags = {one["name"]: one["state_flags"] for one in json.loads(document(here, sinfo.see(api, here)))["nodes"]}
    assert (flags["c1"], flags["c3"], flags["c5"]) == (["CLOUD"], ["CLOUD", "POWERING_UP"], ["CLOUD", "POWERED_DOWN"])
    off = next(one for one in with_cloud(here, nodes(api)) if one.name == "c5")
    assert (off.cpus, off.memory_mib, off.gpus, off.features) == (8, 16000, 2, ("big",))
    page = [part for line in pages.node(off, "idle", Used(), ["batch"]) for part in line]
    assert any(part.startswith("State=IDLE+CLOUD+POWERED_DOWN ") for part in page)
    found = hardware(api, here, {})
    assert (found.nodes, found.gpus, found.names) == (5, 2, {f"c{number}" for number in range(1, 6)})


def test_a_site_without_cloud_nodes_has_those_of_the_cluster() -> None:
    api: Any = Fake()
    assert [one.name for one in with_cloud(site.Site(), nodes(api))] == ["c1", "c2"]


def test_cloud_nodes_without_memory_are_reported() -> None:
    found, told = read_conf("NodeName=a[1-2] State=CLOUD\nNodeName=b State=CLOUD RealMemory=1")
    assert list(found.cloud) == ["b"]
    assert [one.became for one in told if "a[1-2] State=CLOUD" in one.text and "RealMemory" in one.became]


def test_the_scheduler_writes_where_sinfo_reads() -> None:
    assert (suspend.SITE, suspend.POWER) == (admission.SITE, site.POWER)
