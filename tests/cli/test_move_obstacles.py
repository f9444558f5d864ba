"""`cli/submission/moving/obstacles.py`: why the target of a move cannot take a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.submission.moving.obstacles import Obstacles
from phalanx.client.kind import CONFIG_MAPS, JOBS, PODS

ANY = Obstacles(has_image=True, missing=frozenset({"n/data"}), kinds=frozenset({JOBS, PODS}))


def job(namespace: str = "n", image: str = "python", claim: str = "") -> FoundJob:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    pod: dict[str, Any] = {"containers": [{"name": "main", "image": image}], "volumes": volumes}
    obj = {"metadata": {"name": "j", "namespace": namespace}, "spec": {"template": {"spec": pod}}}
    return FoundJob(kind="job", namespace=namespace, name="j", members=(Member(kind=JOBS, obj=obj),))


def test_job_that_the_target_can_take_has_no_obstacle() -> None:
    assert ANY.of(job(image="host")) == ""
    assert ANY.of(job(claim="other")) == ""


@pytest.mark.parametrize(
    ("found", "obstacles", "why"),
    [
        (job(), replace(ANY, kinds=frozenset({PODS})), "the target has no jobs.batch"),
        (job(namespace="kube-system"), ANY, "the namespace kube-system belongs to the system"),
        (job(image="host"), replace(ANY, has_image=False), "name an image with --image"),
        (job(claim="data"), ANY, "it mounts the claim data, which the target does not have"),
        (
            FoundJob(kind="x", namespace="n", name="x", members=(Member(kind=CONFIG_MAPS, obj={}),)),
            ANY,
            "cannot be held: submit it again in the target",
        ),
    ],
    ids=["kind", "system", "image", "claim", "cannot be held"],
)
def test_obstacle_is_stated(found: FoundJob, obstacles: Obstacles, why: str) -> None:
    assert why in obstacles.of(found)
