"""`phalanx rerun`: which jobs can be submitted again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.cli.commands.attend.rerun import _require_rerunnable
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry
from tests.cli.found_jobs import COMPLETE, found_job


def test_a_job_that_is_over_or_that_is_forced() -> None:
    over = found_job(status=COMPLETE)
    assert _require_rerunnable(over, False) is over.members[0]
    live = found_job()
    assert _require_rerunnable(live, True) is live.members[0]
    with pytest.raises(PhalanxError, match="ns/train is queued: --force submits a second job"):
        _require_rerunnable(live, False)


def test_a_job_that_only_the_ledger_knows_has_no_manifest() -> None:
    entry = JobEntry(uid="u", job="ns/train", user="ada", queue="lab", account="lab", submit_s=1.0)
    with pytest.raises(PhalanxError, match="the ledger does not contain manifests"):
        _require_rerunnable(replace(found_job(), entry=entry, members=()), True)


def test_of_several_objects_one_must_be_named() -> None:
    one = found_job(status=COMPLETE)
    with pytest.raises(PhalanxError, match="has 2 objects: rerun one of them"):
        _require_rerunnable(replace(one, members=one.members * 2), False)


def test_jobs_of_slurm_and_of_other_schedulers_have_tools_of_their_own() -> None:
    with pytest.raises(PhalanxError, match=r"is Slurm's job 12: `scontrol requeue 12`"):
        _require_rerunnable(found_job(status=COMPLETE, labels={"slurm.phalanx.dev/number": "12"}), False)
    foreign = found_job(kind=VOLCANO_JOB.kind, schedulerName="volcano")
    with pytest.raises(PhalanxError, match=r"is a Job of batch\.volcano\.sh: its own tools"):
        _require_rerunnable(foreign, True)
