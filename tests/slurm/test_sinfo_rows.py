"""`slurm/commands/cluster/sinfo_rows.py`: the rows of sinfo and their order, as Slurm 22.05.8 printed them."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.commands.cluster import sinfo
from phalanx.slurm.commands.cluster.sinfo_rows import NodeUsage, rows_of, sort_rows
from phalanx.slurm.jobs.nodes import NodeInfo

SITE = Site(
    partitions=[
        Partition(name="batch", default=True, max_min=60),
        Partition(name="a", nodes=["n1", "n2"], max_min=10),
        Partition(name="empty", nodes=["n9"]),
    ]
)
STATES = {"n1": "idle", "n2": "mixed", "n3": "drained"}
SEEN = [
    NodeUsage(
        NodeInfo(name=name, cpus=4, memory_mib=1000, gpus=0, ready=True, drained=state == "drained",
             reason="disk" if state == "drained" else "", reason_by="root" if state == "drained" else "",
             reason_s="2026-01-01T00:00:00" if state == "drained" else ""),
        state,
        0,
    )
    for name, state in STATES.items()
]  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    monkeypatch.setattr(sinfo.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sinfo.site, "load", lambda api: SITE)
    monkeypatch.setattr(sinfo, "see", lambda api, here: SEEN)
    for name in [name for name in os.environ if name.startswith("SINFO_")]:
        monkeypatch.delenv(name)
    assert sinfo.run(words) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        # -s before -N before -R: each only chooses the columns.
        (["-h", "-R", "-s"], ["batch* up 1:00:00 0/0/1/1 n3", "a up 10:00 0/0/0/0", "empty up infinite 0/0/0/0"]),
        (["-h", "-R", "-N"], ["n3 1 batch* drain"]),
        (["-h", "-R"], ["disk root 2026-01-01T00:00:00 n3"]),
        # -s with a format of one's own sums nothing up.
        (
            ["-h", "-s", "-o", "%R %t %D"],
            ["batch drain 1", "batch mix 1", "batch idle 1", "a mix 1", "a idle 1", "empty n/a 0"],
        ),
        # Nodes are idle although they are drained.
        (["-h", "-t", "idle", "-o", "%R %N"], ["batch n[1,3]", "a n1", "empty"]),
        (["-h", "-t", "idle&drain", "-o", "%R %N"], ["batch n3", "a", "empty"]),
        # The last format counts, read as names if -O was typed anywhere.
        (["-h", "-O", "nodes", "-o", "nodelist:0 x"], ["n[1-3] x"]),
        # Letters of --sort need no commas; ties stay in the order of slurm.conf.
        (["-h", "-S", "R-N", "-o", "%R %n"], ["a n2", "a n1", "batch n3", "batch n2", "batch n1", "empty"]),
        (
            ["-h", "-S", "t,#P", "-o", "%R %t"],
            ["empty n/a", "batch idle", "a idle", "batch mix", "a mix", "batch drain"],
        ),
        (["-h", "-S", "-l", "-o", "%R"], ["empty", "batch", "a"]),
        # The mark of the default partition stays where its name is cut, and (null) does not fit into five.
        (["-h", "-o", "%.3P|%5G|%.5G|"], ["ba*| |(null|", "a| |(null|", "emp| |(null|"]),
    ],
)
def test_sinfo_rows_are_those_of_slurm(
    words: list[str], rows: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(capsys, monkeypatch, *words) == rows


@pytest.mark.parametrize(
    ("words", "above"),
    [(["-T"], []), (["-T", "-l"], ["date"]), (["-T", "-l", "-M", "c"], ["date", "CLUSTER: c"]),
     (["-T", "-h", "-l", "-M", "c"], []), (["-o", "%V", "-M", "c"], ["CLUSTER: c", "CLUSTER", "c"]),
     (["-o", "%V"], ["CLUSTER", "N/A"])],
)  # fmt: skip
def test_the_date_and_the_cluster_are_above_nodes_and_reservations(
    words: list[str], above: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinfo, "time", SimpleNamespace(strftime=lambda form: "date"))
    monkeypatch.setattr("phalanx.slurm.control.reservations.reservations", lambda api: [])
    monkeypatch.setattr(SITE, "cluster", "c")
    none = ["No reservations in the system"] if "-T" in words else []
    assert shown(capsys, monkeypatch, *words) == [*above, *none]


def test_a_node_joins_the_first_row_that_looks_the_same() -> None:
    rows = sort_rows(rows_of(SITE.all, SEEN, {}, None, {"c"}), "#P,-t", SITE.all)
    assert [[one.node.name for one in row.seen] for row in rows] == [["n1", "n2", "n3"]]
