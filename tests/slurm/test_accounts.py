"""Accounts become queues: their shares, parents and limits, on a real `phalanx up`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.slurm.accounts import limits
from phalanx.slurm.main import install
from tests.cli.upstart import Up, started, until
from tests.slurm.shell import ME, Shell


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "8") as up:
        install(up.data / "bin")
        yield up
        up.stop()


@pytest.mark.slow
def test_accounts_users_and_limits_are_those_of_queues(up: Up, tmp_path: Path) -> None:
    shell = Shell(up, tmp_path)
    shell("sacctmgr -i add account lab description='the lab' organization=bio fairshare=10")
    shell("sacctmgr -i add account sub parent=lab")
    shell(f"sacctmgr -i add user {ME} account=lab,sub defaultaccount=sub fairshare=3")
    shell("sacctmgr -i modify account lab set maxjobs=1 grptres=cpu=4,mem=2G maxwall=60")
    lab, sub = (json.loads(up.kubectl("get", "queue", name, "-o", "json"))["spec"] for name in ("lab", "sub"))
    assert (lab["weight"], lab["accounts"], sub["parent"]) == (10, {ME: 3}, "lab")
    assert lab["limits"] == {
        "perUser": {"running": 1},
        "total": {"resources": {"cpu": "4", "memory": "2Gi"}},
        "perJob": {"wall": "3600s"},
    }
    first, second = shell.submit("-A lab --wrap 'sleep 300'"), shell.submit("--wrap 'sleep 300'")
    shell.until(first, "RUNNING")
    until(lambda: shell.state(second, "%T %r %a") == "PENDING QOSMaxJobsPerUserLimit sub")
    shell("sacctmgr -i modify account lab set maxjobs=-1")
    shell.until(second, "RUNNING")
    shell(f"scancel {first} {second}")
    assert "Invalid account" in shell.fails("sbatch -A nope --wrap true")
    assert shell("sacctmgr -n -P list assoc account=lab format=account,user,share,grptres,maxwall").splitlines() == [
        "lab||10|cpu=4,mem=2G|01:00:00",
        f"lab|{ME}|3||01:00:00",
    ]
    assert shell("sshare -a -n -P -o Account,User,RawShares,NormShares").splitlines() == [
        "root|||0.000000",
        " root|root|1|0.090909",
        " lab||10|0.909091",
        f"  lab|{ME}|3|0.750000",
        "  sub||1|0.250000",
        f"   sub|{ME}|3|1.000000",
    ]
    shell(f"sacctmgr -i delete user name={ME}")
    shell("sacctmgr -i delete account name=sub,lab")
    assert "lab" not in up.kubectl("get", "queues")


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("grptres", "cpu=10,mem=5000", "cpu=10,mem=5000M"),
        ("grptres", "cpu=-1", ""),
        ("maxwall", "60", "01:00:00"),
        ("maxjobs", "5", "5"),
        ("maxjobs", "-1", ""),
    ],
)
def test_limits_as_they_are_kept(name: str, value: str, kept: str) -> None:
    assert limits.written(name, value) == kept


@pytest.mark.parametrize(("name", "value"), [("grptres", "license/x=1"), ("maxjobs", "many"), ("maxwall", "long")])
def test_limits_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(limits.LimitError):
        limits.written(name, value)
