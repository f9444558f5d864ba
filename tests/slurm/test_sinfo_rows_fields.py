"""`slurm/commands/cluster/sinfo_rows.py`: what sinfo shows of partitions and nodes."""

from __future__ import annotations

from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.commands.cluster.sinfo_rows import NodeUsage, rows_of
from phalanx.slurm.jobs.nodes import NodeInfo


def test_sinfo_shows_one_row_for_partitions_that_no_column_tells_apart() -> None:
    here = Site(partitions=[Partition(name="a", default=True), Partition(name="b", max_min=10)])
    node = NodeInfo(name="n1", cpus=4, memory_mib=64000, gpus=0, ready=True, drained=False)
    seen = [NodeUsage(node, "idle", 0)]
    for letters, rows in (({"a", "t"}, 1), ({"P", "t"}, 2), ({"l"}, 2)):
        assert len(rows_of(here.all, seen, {}, None, letters)) == rows
