"""Node groups of the power saving of a slurm.conf."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.cli.local.node_groups.provider_fields import SlurmProvider
from phalanx.cli.local.node_groups.slurm_conf import node_groups, read_power
from phalanx.errors import PhalanxError

CONF = """
ClusterName=site
SlurmUser=USER(0)
SuspendProgram=/usr/bin/true
ResumeProgram=/usr/bin/env
SuspendTime=600
SuspendTimeout=45 ResumeTimeout=300
ResumeRate=100 SuspendRate=0
SuspendExcNodes=gpu[1-2],login
NodeName=DEFAULT CPUs=32 RealMemory=128000
NodeName=login
NodeName=gpu[1-8] State=CLOUD Gres=gpu:a100:4(S:0-1),craynetwork:2 Feature=a100,big
NodeName=cpu[01-10] Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 State=CLOUD
PartitionName=all Nodes=ALL State=UP
"""


def test_a_slurm_conf_becomes_node_groups(tmp_path: Path) -> None:
    user = "root" if os.geteuid() == 0 else os.environ["USER"]
    file = tmp_path / "groups.yaml"
    file.write_text(yaml.safe_dump(node_groups(*read_power(CONF.replace("USER", user)))))
    gpu, cpu = read_node_groups(file)
    assert [(each.group.name, each.group.max_nodes, each.group.idle_s) for each in (gpu, cpu)] == [
        ("gpu", 8, 600.0),
        ("cpu", 10, 600.0),
    ]
    memory = 128_000 * 2**20
    assert dict(gpu.group.template.allocatable) == {"cpu": 32_000, "memory": memory, "nvidia.com/gpu": 4, "pods": 110}
    assert "feature.slurm.phalanx.dev/a100" in dict(gpu.group.template.labels)
    assert dict(cpu.group.template.allocatable)["cpu"] == 32_000
    assert (gpu.group.timeout_s, gpu.group.delay_s) == (300.0, 300.0)
    assert isinstance(gpu.provider, SlurmProvider)
    assert isinstance(cpu.provider, SlurmProvider)
    settings = gpu.provider.settings
    assert (settings.resume_program, settings.suspend_program, settings.user) == ("/usr/bin/env", "/usr/bin/true", user)
    assert (settings.resume_rate, settings.suspend_rate, settings.suspend_timeout_s) == (100, 0, 45.0)
    assert (settings.nodes[0], settings.excluded) == ("gpu1", frozenset({"gpu1", "gpu2"}))
    assert (cpu.provider.settings.nodes[0], len(cpu.provider.settings.nodes)) == ("cpu01", 10)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("State=CLOUD", "State=UNKNOWN", "it has no nodes with State=CLOUD"),
        ("ResumeProgram=/usr/bin/env", "", "no ResumeProgram, so no program powers them"),
        ("ResumeProgram=/usr/bin/env", "ResumeProgram=env", "slurm.conf, line 5: resumeprogram=env: it must be an abs"),
        ("SuspendExcNodes=gpu[1-2],login", "SuspendExcNodes=gpu[1-8]:2", "a number of nodes (`:`) is not supported"),
        (" RealMemory=128000", "", "slurm.conf, line 12: NodeName=gpu[1-8] has no RealMemory"),
        ("SuspendTime=600", "SuspendTime=soon", "suspendtime: soon is not a whole number"),
    ],
)
def test_what_cannot_become_node_groups_is_an_error(before: str, after: str, error: str) -> None:
    assert before in CONF
    with pytest.raises(PhalanxError) as caught:
        node_groups(*read_power(CONF.replace(before, after)))
    assert error in str(caught.value)


def test_nodes_are_never_switched_off_without_a_time() -> None:
    groups = node_groups(*read_power(CONF.replace("SuspendTime=600", "SuspendTime=INFINITE")))["nodeGroups"]
    assert groups[0]["idle"] == "36500d"
