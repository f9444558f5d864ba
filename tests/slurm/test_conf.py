"""`slurm/cluster/conf.py`: read slurm.conf and gres.conf."""

from __future__ import annotations

from phalanx.slurm.cluster.conf import read_conf


def test_a_slurm_conf_becomes_a_site() -> None:
    found, told = read_conf(
        "ClusterName=lab\nFirstJobId=1000 # from here\nAuthType=auth/munge\n"
        "NodeName=cn[1-2] CPUs=16 Feature=fast,big\n"
        "PartitionName=batch Nodes=cn[1-2] Default=YES MaxTime=7-0 DefaultTime=1:00:00 \\\n"
        " State=UP DefMemPerCPU=1000\n"
        "PartitionName=priv Nodes=ALL AllowAccounts=chem MaxTime=INFINITE Shared=NO\n"
    )
    assert (found.cluster, found.first_job, found.features["cn2"]) == ("lab", 1000, ["fast", "big"])
    batch, priv = found.partitions
    assert (batch.nodes, batch.default, batch.max_min, batch.default_min) == (["cn1", "cn2"], True, 10080, 60)
    assert (priv.nodes, priv.accounts, priv.max_min) == ([], ["chem"], None)
    assert [(one.line, one.text) for one in told if not one.taken] == [
        (3, "AuthType=auth/munge"),
        (4, "NodeName=cn[1-2] cpus=16"),
        (7, "PartitionName=priv shared=NO"),
    ]
    assert {one.line for one in told} == {1, 2, 3, 4, 5, 7}  # no line is passed over
