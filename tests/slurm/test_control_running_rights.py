"""The rights to change another user's job: admin levels, and coordinators of its account and of the accounts above."""

from __future__ import annotations

import pytest

from phalanx.slurm.cluster.site import Account, Site
from phalanx.slurm.control.running import may_as
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo

SITE = Site(
    admins={"op": "Operator", "adm": "Administrator", "former": "None"},
    accounts={
        "lab": Account(coordinators=["head"]),
        "vision": Account(parent="lab", coordinators=["lead"]),
        "chem": Account(coordinators=["other"]),
    },
)
ASK = Ask(name="j", user="ada", uid=1, gid=1, group="g", account="vision", partition="batch")


@pytest.mark.parametrize(
    ("user", "may"),
    [("op", True), ("adm", True), ("former", False), ("head", True), ("lead", True), ("other", False), ("bob", False)],
)
def test_levels_and_coordinators_change_jobs_of_others(user: str, may: bool) -> None:
    assert may_as(SITE, user, JobInfo(number=1, ask=ASK, state="PENDING")) is may
