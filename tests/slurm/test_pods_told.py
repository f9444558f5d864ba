"""`slurm/jobs/steps/pods/told.py`: the addresses of a job's pods, for programs that may not read pods."""

from __future__ import annotations

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.jobs.ask import POD_NAME
from phalanx.slurm.jobs.steps.pods import told as telling
from phalanx.slurm.jobs.steps.pods.place import allocation
from phalanx.slurm.jobs.steps.pods.told import PodAddress, tell, told
from tests.slurm.test_place import Own, started


def tells(monkeypatch: pytest.MonkeyPatch, api: Own, index: int, node: str) -> None:
    own = {POD_NAME: f"slurm-7-{index}-abcde", "SLURMD_NODENAME": node, "PHALANX_POD_IP": f"10.0.0.{index}"}
    for name, text in {**own, "JOB_COMPLETION_INDEX": str(index)}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(telling.ApiClient, "open", lambda: api)
    tell()


def test_pods_are_found_by_what_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    api = started(2)
    tells(monkeypatch, api, 0, "n2")
    tells(monkeypatch, api, 1, "n1")
    found = allocation(api, 7)
    assert found.pods == (
        PodAddress("slurm-7-1-abcde", "n1", "10.0.0.1"),
        PodAddress("slurm-7-0-abcde", "n2", "10.0.0.0"),
    )
    assert (found.nodes, found.head, found.key, found.through) == (("n1", "n2"), 1, "k", api)


def test_what_an_earlier_start_told_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    api = started(1)
    tells(monkeypatch, api, 0, "n2")
    assert api.job is not None
    assert told(api.job) == {0: PodAddress("slurm-7-0-abcde", "n2", "10.0.0.0")}
    api.job["status"]["startTime"] = "2026-01-02T03:09:09Z"
    assert told(api.job) == {}
    with pytest.raises(PhalanxError, match="the pods of job 7 did not start within 0 s"):
        allocation(api, 7, 0.0)
