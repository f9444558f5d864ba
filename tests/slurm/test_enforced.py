"""Tests of `slurm/accounts/enforced.py`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phalanx.ledger.entry import JobEntry, StartEntry, State
from phalanx.ledger.store import Ledger
from phalanx.slurm.accounts.enforced import LimitCheck, check
from phalanx.slurm.cluster.site import Account, Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo
from tests.slurm.test_limits import site

ASK = Ask(name="j", user="ada", uid=1, gid=1, group="g", account="lab", partition="batch", qos="gold", limit_min=30)


def asks(here: Site, live: int = 0, count: int = 1, **what: object) -> LimitCheck:
    jobs = [JobInfo(number=number, ask=ASK, state="PENDING") for number in range(live)]
    return check(here, msgspec.structs.replace(ASK, **what), count, lambda: jobs)


def test_a_limit_that_a_job_exceeds_by_itself_is_what_it_waits_for() -> None:
    here = site({"maxtresperuser": "cpu=4,mem=8G", "maxwall": "01:00:00"})
    assert asks(here, tasks=4) == LimitCheck()
    assert asks(here, tasks=5).hold == "QOSMaxCpuPerUserLimit"
    assert asks(here, memory_mib=8193).hold == "QOSMaxMemoryPerUser"
    assert asks(here, limit_min=61).hold == "QOSMaxWallDurationPerJobLimit"
    assert asks(here, limit_min=None).hold == "QOSMaxWallDurationPerJobLimit"
    assert asks(here, tasks=5, qos="normal") == LimitCheck()
    denied = site({"maxtresperuser": "cpu=4"}, None, "DenyOnLimit")
    assert asks(denied, tasks=5).refused == "QOSMaxCpuPerUserLimit"
    own = site({}, {"maxtres": "gres/gpu=1,cpu=2"})
    assert asks(own, tasks=3).hold == "AssocMaxCpuPerJobLimit"
    assert asks(own, gpus_per_node=2).hold == "AssocMaxGRESPerJob"


def test_submitted_jobs_are_counted_with_the_tasks_of_an_array() -> None:
    here = site({"maxsubmitjobsperuser": "3"})
    assert asks(here, live=2) == LimitCheck()
    assert asks(here, live=3).refused == "QOSMaxSubmitJobPerUserLimit"
    assert asks(here, live=2, count=2).refused == "QOSMaxSubmitJobPerUserLimit"
    assert asks(here, live=3, user="bob") == LimitCheck()
    assert asks(site({}, {"maxsubmitjobs": "1"}), live=1).refused == "AssocMaxSubmitJobLimit"


def test_running_jobs_take_turns_in_one_array_for_each_user() -> None:
    ada = asks(site({"maxjobsperuser": "2"}, {"maxjobs": "1"}))
    assert (ada.cap, ada.group, ada.reason) == (2, "qos-gold-ada", "QOSMaxJobsPerUserLimit")
    assert asks(site({}, {"maxjobs": "1"})) == msgspec.structs.replace(
        ada, cap=1, group="assoc-lab-ada", reason="AssocMaxJobsLimit"
    )


def test_all_time_of_an_account_counts_against_its_grpwall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ledger.sqlite3"
    monkeypatch.setenv("PHALANX_LEDGER", f"sqlite:///{file}")
    ledger = Ledger.open(f"sqlite:///{file}")
    start = StartEntry(at_s=1000.0, state=State.COMPLETED, end_s=4600.0, nodes=("n1",), allocated={"cpu": 1000})
    ledger.put([JobEntry(uid="u", job="ai/train", account="lab/vision", submit_s=900.0, end_s=4600.0, starts=(start,))])
    here = site({})
    for most, hold in (("00:59:00", "AssocGrpWallLimit"), ("01:00:00", "AssocGrpWallLimit"), ("01:01:00", "")):
        here.accounts["lab"].limits = {"grpwall": most}
        assert asks(here).hold == hold


def test_submitted_jobs_of_an_account_count_for_the_accounts_above_it() -> None:
    here = site({})
    here.accounts = {"all": Account(limits={"grpsubmitjobs": "2"}), "lab": Account(parent="all"), "other": Account()}
    assert asks(here, live=1) == LimitCheck()
    assert asks(here, live=2).refused == "AssocGrpSubmitJobsLimit"
    assert asks(here, live=1, count=2).refused == "AssocGrpSubmitJobsLimit"
    assert asks(here, live=2, account="other") == LimitCheck()
