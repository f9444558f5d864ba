"""scontrol update of partitions and nodes."""

from __future__ import annotations

import pytest

from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.commands.cluster.verbs import nodes
from phalanx.slurm.commands.cluster.verbs import update as changes
from phalanx.slurm.options import Usage


def test_only_administrators_change_a_partition_even_to_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes.ApiClient, "open", lambda: None)
    monkeypatch.setattr(nodes.site, "load", lambda api: Site(partitions=[Partition(name="p", state="DOWN")]))
    monkeypatch.setattr(nodes, "is_administrator", lambda here: False)
    for line in ("part=p state=down", "part=nowhere state=down"):
        with pytest.raises(Usage) as error:
            changes.update(line.split())
        assert error.value.text == "slurm_update error: Invalid user id"
