"""`kube/status/told.py`: the view of a gang that dialects get, at each stage."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.client.connection import Object
from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import GangStage
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.status.told import outcome_of, tell
from phalanx.model.job import Outcome
from phalanx.model.plan import Start
from phalanx.model.reason import Reason, ReasonCode
from tests.kube import double
from tests.kube.gang.recorded_effects import PLACED, a_job, running, waiting


def objects(kind: Kind) -> Mapping[str, Object]:
    """Return the API objects of the gangs of `recorded_effects`."""
    found = double.job("j", 2)
    found["metadata"] |= {"uid": "j", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return {"default/j": found} if kind.name == "Job" else {}


def stage_of(gang: GangLifecycle) -> GangStage:
    told = tell(gang, objects, (), None, None)
    assert told is not None
    return told.stage


def test_a_waiting_gang_is_shown_with_its_reason_and_its_pods() -> None:
    _, gang = waiting()
    why = Reason(code=ReasonCode.QUOTA, text="no quota")
    told = tell(gang, objects, (), why, None)
    assert told is not None
    assert (told.id, told.kind, told.queue, told.stage, told.reason) == (
        "default/j",
        "Job",
        "default",
        GangStage.WAITING,
        why,
    )
    assert [(pods.count, pods.minimum) for pods in told.pod_sets] == [(2, 2)]
    assert told.outcome is None


def test_the_stage_of_the_life_is_the_stage_of_the_view() -> None:
    _, gang = waiting()
    decisions.start(gang, Start("default/j", 1, PLACED), whole=True)
    assert stage_of(gang) is GangStage.STARTING
    _, gang = running()
    assert stage_of(gang) is GangStage.RUNNING


def test_a_gang_without_its_object_is_not_shown() -> None:
    _, gang = waiting()
    assert tell(gang, lambda kind: {}, (), None, None) is None
    gang.see_job(a_job("other", 1, uid="other"))
    assert tell(gang, objects, (), None, None) is None, "the object of one of its Jobs is not known yet"


def test_bare_pods_succeed_if_one_of_them_has() -> None:
    failed, succeeded = ({"status": {"phase": phase}} for phase in ("Failed", "Succeeded"))
    assert outcome_of([failed, succeeded]) is Outcome.SUCCEEDED
    assert outcome_of([failed]) is Outcome.FAILED
