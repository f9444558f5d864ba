"""Values of scontrol update that a real Slurm 22.05 was seen to read so."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.cluster.verbs import update_forms
from phalanx.slurm.commands.cluster.verbs.nodes import entity_of
from phalanx.slurm.options import Usage


def test_values_of_scontrol_update(capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"numcpus": "4-2", "numtasks": "-1", "contiguous": "x", "mailtype": "x", "timemin": "x"}.items():
        with pytest.raises(Usage):
            update_forms.require_readable({name: value})
    assert update_forms.require_readable({"numcpus": "2-4", "numtasks": "+3", "shared": "5", "mailtype": "end,fail"})
    assert not update_forms.require_readable({"numnodes": "1-"})
    assert capsys.readouterr().err == 'scontrol: error: Invalid numeric value "1-" for requested node count.\n'
    assert [entity_of(one) for one in ("part", "RES", "nodename", "job", "no", "jobname")] == [
        "partitionname", "reservationname", "nodename", "jobid", "", "",
    ]  # fmt: skip
