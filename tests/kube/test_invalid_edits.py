"""An edit that makes a framework's job invalid: one warning names the object, the field and the value, and the
scheduler continues with the last valid state. A job that waits does not start until it is valid again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer
from phalanx.dialects.job_kinds.ray import RAY_JOB
from phalanx.kube.read.workload.adapter import TRAINING_KINDS
from phalanx.model.job import Phase
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.double import Object, node, pod_spec
from tests.kube.stage import Stage
from tests.kube.test_adapter_training import PYTORCH, Operator, training
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import ON, job, stage_with

TENSORFLOW = next(kind for kind in TRAINING_KINDS if kind.name == "TFJob")
QUEUED = {"namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "l"}}
FAULT = "it cannot be read: {field}: 'many' is not a whole number from 0 to 2147483647"
WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b", numbers={"by": "default/b"})


def tensorflow(replicas: Any) -> tuple[Kind, Object, str]:
    workers = {"replicas": replicas, "template": {"spec": pod_spec()}}
    spec = {"runPolicy": {"suspend": True}, "tfReplicaSpecs": {"Worker": workers}}
    return TENSORFLOW, {"metadata": {**QUEUED, "name": "odd"}, "spec": spec}, "spec.tfReplicaSpecs.Worker.replicas"


def ray(replicas: Any) -> tuple[Kind, Object, str]:
    template = {"spec": pod_spec()}
    group = {"groupName": "w", "replicas": replicas, "template": template}
    cluster = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    spec = {"suspend": True, "submissionMode": "HTTPMode", "rayClusterSpec": cluster}
    meta = {**QUEUED, "name": "odd"}
    return RAY_JOB.kind, {"metadata": meta, "spec": spec}, "spec.rayClusterSpec.workerGroupSpecs[0].replicas"


def change(stage: Stage, kind: Kind, **parts: Any) -> None:
    stage.api.put(kind, {**stage.api.objects[kind]["default/odd"], **parts})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings and errors about the object; none may have a traceback."""
    found = [one for one in caplog.records if one.levelno >= logging.WARNING and "odd" in one.getMessage()]
    assert not [one.getMessage() for one in found if one.exc_info]
    return [one.getMessage() for one in found]


@pytest.mark.parametrize("make", [tensorflow, ray], ids=["TFJob", "RayJob"])
def test_an_invalid_edit_is_one_warning_and_the_job_waits(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        stage = stage_with(3)
        kind, valid, field = make(2)
        stage.put(job("first", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            stage.api.put(kind, valid)
            await stage.until(lambda: "default/odd" in stage.cluster.jobs)
            change(stage, kind, spec=make("many")[1]["spec"])
            await settle(stage)
            fault = FAULT.format(field=field)
            assert stage.reason("odd") == f"Invalid: {fault}"
            for number in range(3):
                meta = stage.api.objects[kind]["default/odd"]["metadata"]
                change(stage, kind, metadata={**meta, "annotations": {"n": str(number)}})
                await settle(stage, 3)
            for pod in list(stage.api.bound()):
                stage.finish(pod.partition("/")[2] or pod)
            await settle(stage)
            assert stage.phase("odd") is Phase.QUEUED
            said = f"{kind.name} default/odd is invalid; its last valid state is used, if any: {fault}"
            assert warnings(caplog) == [said]
            change(stage, kind, spec=valid["spec"])
            await stage.until(lambda: stage.phase("odd") is Phase.STARTING)

    play(scene())


def test_a_running_job_with_an_invalid_edit_is_preempted(caplog: pytest.LogCaptureFixture) -> None:
    """Its pods are counted, and it is suspended although its new spec cannot be read."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)], dialects=ON | {"kubeflow"})
        stage.controller = Operator(stage.api)
        stage.api.put(PYTORCH, training(1, "odd"))
        async with stage.scheduler():
            await stage.until(lambda: stage.phase("odd") is Phase.RUNNING if stage.cluster.jobs else False)
            spec = stage.api.objects[PYTORCH]["default/odd"]["spec"]
            broken = {**spec, "runPolicy": {**spec["runPolicy"], "schedulingPolicy": {"minAvailable": "many"}}}
            change(stage, PYTORCH, spec=broken)
            await settle(stage)
            assert (stage.phase("odd"), len(stage.api.bound())) == (Phase.RUNNING, 2)
            stage.decide(Preempt("default/odd", 1, "default/b", WHY))
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            found = stage.api.objects[PYTORCH]["default/odd"]["spec"]["runPolicy"]
            assert found == {"suspend": True, "schedulingPolicy": {"minAvailable": "many"}}
            field = "spec.runPolicy.schedulingPolicy.minAvailable"
            assert stage.reason("odd").startswith(f"Invalid: it cannot be read: {field}: 'many' is not a whole number")
            assert len(warnings(caplog)) == 1

    play(scene())


def test_an_invalid_edit_between_the_decision_and_the_write_takes_the_start_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)], dialects=ON | {"kubeflow"})
        kind, valid, _ = tensorflow(2)
        valid["metadata"] |= {"labels": {"phalanx.dev/queue": "default"}}
        stage.api.put(kind, valid)
        edits = [tensorflow("many")[1]["spec"]]

        def edit(write: str) -> None:
            if edits and "tfjobs" in write:
                change(stage, kind, spec=edits.pop())

        stage.fault = edit
        async with stage.scheduler():
            await stage.until(lambda: not edits)
            await settle(stage)
            assert stage.phase("odd") is Phase.QUEUED
            assert stage.reason("odd").startswith("Invalid: it cannot be read: spec.tfReplicaSpecs.Worker.replicas")
            assert stage.api.objects[kind]["default/odd"]["spec"] == tensorflow("many")[1]["spec"]
            assert len(warnings(caplog)) == 1

    play(scene())


def test_an_error_of_a_dialect_is_logged_once_for_a_gang(caplog: pytest.LogCaptureFixture) -> None:
    def answers(id: str) -> Iterable[Answer]:
        raise ValueError(f"a defect about {id}")

    async def scene() -> None:
        stage = stage_with(1)
        async with stage.scheduler():
            with mock.patch.object(stage.world.answers, "_answers", answers):
                stage.put(job("odd", 2))
                for number in range(3):
                    await settle(stage, 3)
                    stage.change("odd", {}, {"n": str(number)})
                await settle(stage, 3)
        text = "the answers about default/odd are not written until its next change: it cannot be read: ValueError: "
        assert warnings(caplog) == [f"{text}a defect about default/odd"]

    play(scene())
