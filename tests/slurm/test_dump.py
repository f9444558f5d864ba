"""`sacctmgr dump` as a real Slurm 22.05 wrote it: read into a site, and written again word by word."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.dump import dump, read_dump
from phalanx.slurm.cluster.conf import read_conf, read_gres
from phalanx.slurm.cluster.site import Association, Site

GOLDEN = Path(__file__).parent / "golden" / "slurm_dump.cfg"


def test_what_slurm_wrote_is_read_and_written_again() -> None:
    site = Site()
    told = read_dump(GOLDEN.read_text(), site)
    assert dump(site) == "".join(line + "\n" for line in GOLDEN.read_text().splitlines() if not line.startswith("#"))
    chem, bio = site.accounts["chem"], site.accounts["bio"]
    assert (chem.shares, chem.limits, bio.parent) == (60, {"grptres": "cpu=40", "maxwall": "1-00:00:00"}, "chem")
    assert site.users["u2"] == [
        Association(account="chem", qos=["fast", "normal"], limits={"maxjobs": "5"}, number=5),
        Association(account="physics", shares=3, number=9),
    ]
    assert (site.users["u3"][0].shares, site.admins["u3"]) == (-1, "Operator")
    assert site.accounts["physics"].coordinators == ["u1"]
    assert "fast" in site.qos
    lines = {number for number, line in enumerate(GOLDEN.read_text().splitlines(), 1) if line.startswith(("A", "U"))}
    assert lines <= {one.line for one in told}


def test_a_coordinator_may_stand_above_his_account() -> None:
    site = Site()
    read_dump("Account - 'a'\nParent - 'a'\nUser - 'u':Coordinator='b'\nAccount - 'b'\n", site)
    assert site.accounts["b"].coordinators == ["u"]


def test_what_has_no_meaning_is_told() -> None:
    site = Site()
    text = (
        "Cluster - 'c':MaxJobs=4\nAccount - 'a':GrpWall=60:MaxJobs=7\nParent - 'a'\nUser - 'u':GrpJobs=2\nWCKey - 'w'"
    )
    told = read_dump(text, site)
    assert [one.text for one in told if not one.taken] == ["maxjobs=4", "u: grpjobs=2", "WCKey - 'w'"]
    assert site.accounts["a"].limits == {"maxjobs": "7", "grpwall": "01:00:00"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("nonsense", "line 1: nonsense is not a line"), ("\nParent - 'x'", "line 2: the account x does not exist"),
     ("Account - 'a':Fairshare=many", "not a whole number")],
)  # fmt: skip
def test_what_is_no_dump_is_refused(text: str, words: str) -> None:
    with pytest.raises(PhalanxError, match=words):
        read_dump(text, Site())


def test_each_line_of_a_gres_conf_is_told() -> None:
    told = read_gres("# devices\nNodeName=cn[3-4] Name=gpu File=/dev/nvidia[0-3]\nName=fpga Count=2\n")
    assert [(one.line, one.taken) for one in told] == [(2, False), (3, False)]
    assert "nvidia.com/gpu" in told[0].became
    assert "only gpu" in told[1].became


@pytest.mark.parametrize("text", ["PartitionName='a", "PartitionName=a MaxNodes=x", "KillWait=soon"])
def test_a_line_of_slurm_conf_that_cannot_be_read_is_refused_with_its_number(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"slurm\.conf, line 2: "):
        read_conf("ClusterName=x\n" + text)
