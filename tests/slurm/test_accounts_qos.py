"""`slurm/accounts/limits.py`: QOS as sacctmgr changes and shows them."""

from __future__ import annotations

import pytest

from phalanx.slurm.accounts.limits import change_qos
from phalanx.slurm.cluster.site import Qos
from phalanx.slurm.options import Usage
from tests.slurm.test_limits import site


def test_a_qos_is_changed_and_what_is_not_carried_out_is_refused() -> None:
    here, qos = site({}), Qos()
    change_qos(here, qos, {"maxjobspu": "2", "flags": "denyonlimit", "priority": "7"})
    assert (qos.limits, qos.flags, qos.priority) == ({"maxjobsperuser": "2"}, ["DenyOnLimit"], 7)
    for name, value in (("grpwall", "60"), ("flags", "nodecay"), ("preempt", "nobody"), ("maxwall", "soon")):
        with pytest.raises(Usage):
            change_qos(here, qos, {name: value})
