"""`slurm/jobs/steps/records.py`: record each step of a job in an annotation of its Job."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.steps import records
from phalanx.slurm.jobs.steps.records import StepRecord


@pytest.mark.parametrize(
    ("code", "signal", "state"), [(0, 0, "COMPLETED"), (3, 0, "FAILED"), (0, 9, "CANCELLED"), (0, 11, "CANCELLED")]
)
def test_a_step_that_a_signal_ended_is_cancelled(code: int, signal: int, state: str) -> None:
    assert records.ended(StepRecord(start_s=1.0), code, signal).state == state


class Jobs(ApiClient):
    """A Job that other writers change between a read and the following write, a given number of times."""

    def __init__(self, meanwhile: int = 0, refused: int = 0) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser())
        self.notes: dict[str, str] = {}
        self.version, self.meanwhile, self.refused = 1, meanwhile, refused

    def get(self, path: str, **query: str) -> dict[str, object]:
        return {"metadata": {"annotations": dict(self.notes), "resourceVersion": str(self.version)}}

    def patch(self, path: str, body: Any) -> dict[str, object]:
        if self.refused:
            raise RequestRefused(self.refused, "no")
        if self.meanwhile:
            self.meanwhile -= 1
            self.version += 1
            self.notes[f"slurm.phalanx.dev/step.{len(self.notes)}"] = "{}"
        if body["metadata"].get("resourceVersion") != str(self.version):
            raise RequestRefused(409, "the object has been modified")
        self.notes |= body["metadata"]["annotations"]
        self.version += 1
        return {}


def test_steps_that_begin_in_several_places_have_a_number_each() -> None:
    api = Jobs(meanwhile=2)
    assert [records.claim(api, "job", 0, StepRecord(name=name)) for name in ("in the pod", "outside")] == [2, 3]
    assert [one.name for one in records.read(api.notes).values()] == ["", "", "in the pod", "outside"]


def test_steps_that_begin_at_once_keep_the_numbers_that_they_were_counted_by() -> None:
    api = Jobs()
    assert [records.claim(api, "job", least, StepRecord()) for least in (1, 0)] == [1, 0]


def test_a_step_that_may_not_be_recorded_runs_all_the_same() -> None:
    assert records.claim(Jobs(refused=403), "job", 4, StepRecord()) == 4
    assert records.claim(None, "job", 4, StepRecord()) == 4
