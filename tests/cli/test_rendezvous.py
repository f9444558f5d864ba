"""The names and variables by which the pods of one job find each other."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.files.manifest import ManifestRequest, job
from phalanx.cli.files.rendezvous import has_rendezvous, rename, service_of
from phalanx.cli.submission.arrays import tasks_of


def made(**options: Any) -> dict[str, Any]:
    return job(ManifestRequest(**{"name": "train", "command": ("torchrun", "train.py"), "pods": 4, **options}))


def variables(found: dict[str, Any]) -> dict[str, str]:
    """What a program sees: of two values the last one."""
    return {one["name"]: one.get("value", "") for one in found["spec"]["template"]["spec"]["containers"][0]["env"]}


def test_pods_are_told_where_rank_0_listens_and_how_many_they_are() -> None:
    found = variables(made(gpu=8, chance=9500))
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["WORLD_SIZE"]) == ("train-0.train", "29500", "4")
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"]) == ("4", "8")
    assert variables(made(environment=(("MASTER_PORT", "1234"),)))["MASTER_PORT"] == "1234"


def test_a_job_of_one_pod_has_no_rendezvous() -> None:
    found = made(pods=1)
    assert not has_rendezvous(found)
    assert "subdomain" not in found["spec"]["template"]["spec"]


@pytest.mark.parametrize(("name", "domain"), [("train", "train"), ("7b", "j-7b")])
def test_the_service_has_a_name_that_services_may_have_and_goes_with_the_job(name: str, domain: str) -> None:
    found = made(name=name, namespace="lab")
    found["metadata"]["uid"] = "u1"
    service = service_of(found)
    assert service["metadata"]["name"] == found["spec"]["template"]["spec"]["subdomain"] == domain
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert service["metadata"]["ownerReferences"][0] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": "u1",
    }


def test_a_job_with_another_name_meets_under_that_name() -> None:
    found = made()
    rename(found, "again")
    assert has_rendezvous(found)
    assert variables(found)["MASTER_ADDR"] == variables(found)["PET_MASTER_ADDR"] == "again-0.again"
    [first, second] = tasks_of(made(), "1-2")
    assert (variables(first)["MASTER_ADDR"], variables(second)["MASTER_ADDR"]) == (
        "train-1-0.train-1",
        "train-2-0.train-2",
    )


def test_a_job_whose_author_wrote_a_subdomain_keeps_it() -> None:
    found = made(pods=1)
    found["spec"]["template"]["spec"]["subdomain"] = "own"
    rename(found, "again")
    assert found["spec"]["template"]["spec"]["subdomain"] == "own"
