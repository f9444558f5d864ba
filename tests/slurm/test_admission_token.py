"""The token of a job, at the API server itself: what it may touch of its own job, and that it touches nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.slurm.cluster.admission import STEPS, steps_policy
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.names import name_of
from phalanx.slurm.submission import creation, manifest
from tests.embedded.apiserver.auth.test_account_tokens import ACCOUNTS, Server

JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
PLACES = {"ServiceAccount": ACCOUNTS, "Role": f"{RBAC}/roles", "RoleBinding": f"{RBAC}/rolebindings"}
ASK = Ask(name="j", user="ada", uid=7, gid=7, group="g", account="lab", partition="batch")
TASK = Ask(name="j", user="ada", uid=7, gid=7, group="g", account="lab", partition="batch", array=20, task=3)
STEP = "slurm.phalanx.dev/step.0"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.started(tmp_path_factory.mktemp("api")) as api:
        bound = {"policyName": STEPS, "validationActions": ["Deny"]}
        for kind, spec in (("policies", steps_policy()), ("policybindings", bound)):
            made = api.ask("POST", f"{POLICIES}/validatingadmission{kind}", {"metadata": {"name": STEPS}, "spec": spec})
            assert made.code == 201, made.body
        for number, ask in ((12, ASK), (13, ASK), (21, TASK), (30, ASK), (31, ASK), (32, ASK)):
            job = manifest.job(number, ask, Site(), {}, [], "alpine", None, "slurm-12")
            assert api.ask("POST", JOBS, job).code == 201
        for name, jobs in (("slurm-12", ["slurm-12"]), ("slurm-20", [name_of(21, TASK)])):
            secret = api.ask("POST", SECRETS, {"metadata": {"name": name}, "stringData": {"a": "b"}}).body
            for part in creation.objects(name, jobs, [name], "default", secret["metadata"]["uid"]):
                assert api.ask("POST", PLACES[part["kind"]], part).code == 201, part
        both = creation.objects("slurm-30.2", ["slurm-30", "slurm-31"], ["slurm-30", "slurm-31"], "default", "u")
        for part in both:
            part["metadata"].pop("ownerReferences", None)
            assert api.ask("POST", PLACES[part["kind"]], part).code == 201, part
        for pod in (
            "slurm-12-0-abcde", "slurm-12-1-fghij", "slurm-13-0-abcde", "slurm-20-0000003-0-abcde", "web",
            "slurm-29-0-abcde", "slurm-30-0-abcde", "slurm-31-1-abcde", "slurm-32-0-abcde", "slurm-301-0-abcde",
        ):  # fmt: skip
            body = {"metadata": {"name": pod}, "spec": {"containers": [{"name": "batch", "image": "alpine"}]}}
            assert api.ask("POST", PODS, body).code == 201
        yield api


@pytest.fixture(scope="module")
def job(admin: Server) -> Server:
    return admin.with_token(admin.token(account="slurm-12"))


def told(answer: Any) -> str:
    assert answer.code >= 400
    return str(answer.body["message"])


def entered(api: Server, pod: str) -> str:
    """Return the error of exec in that pod. No pod has a node, so a user with the right gets the error about the
    missing node."""
    return told(api.ask("GET", f"{PODS}/{pod}/exec?container=batch&command=true&stdout=true"))


@pytest.mark.parametrize("pod", ["slurm-12-0-abcde", "slurm-12-1-fghij"])
def test_a_job_enters_its_own_pods(job: Server, pod: str) -> None:
    assert entered(job, pod) == f"pod {pod} does not have a host assigned"


@pytest.mark.parametrize("pod", ["slurm-13-0-abcde", "slurm-20-0000003-0-abcde", "web"])
def test_and_no_other(job: Server, pod: str) -> None:
    assert "the token of a job is for its own pods" in entered(job, pod)


def test_a_task_of_an_array_enters_the_pods_of_the_array(admin: Server) -> None:
    task = admin.with_token(admin.token(account="slurm-20"))
    assert "does not have a host" in entered(task, "slurm-20-0000003-0-abcde")
    assert "for its own pods" in entered(task, "slurm-12-0-abcde")


def test_a_heterogeneous_job_enters_the_pods_of_its_components_and_tells_of_them(admin: Server) -> None:
    both = admin.with_token(admin.token(account="slurm-30.2"))
    for pod in ("slurm-30-0-abcde", "slurm-31-1-abcde"):
        assert "does not have a host" in entered(both, pod)
    for pod in ("slurm-29-0-abcde", "slurm-32-0-abcde", "slurm-301-0-abcde", "slurm-12-0-abcde", "web"):
        assert "for its own pods" in entered(both, pod)
    notes = {"metadata": {"annotations": {"slurm.phalanx.dev/pod.0": "[]"}}}
    assert [both.patch(f"{JOBS}/slurm-{number}", notes).code for number in (30, 31)] == [200, 200]
    assert "cannot" in told(both.patch(f"{JOBS}/slurm-32", notes))


def test_others_enter_as_they_did(admin: Server) -> None:
    assert "does not have a host" in entered(admin, "web")


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", PODS),
        ("GET", f"{PODS}/slurm-12-0-abcde"),
        ("DELETE", f"{PODS}/slurm-12-0-abcde"),
        ("GET", JOBS),
        ("GET", f"{JOBS}/slurm-13"),
        ("DELETE", f"{JOBS}/slurm-12"),
        ("GET", SECRETS),
        ("GET", f"{SECRETS}/slurm-20"),
        ("POST", f"{ACCOUNTS}/slurm-20/token"),
        ("GET", "/api/v1/namespaces/kube-system/configmaps/phalanx-slurm"),
    ],
)
def test_what_its_token_does_not_open(job: Server, verb: str, path: str) -> None:
    assert "cannot" in told(job.ask(verb, path, {"spec": {}} if verb == "POST" else None))


def test_it_reads_its_own_job_and_secret(job: Server) -> None:
    assert job.ask("GET", f"{JOBS}/slurm-12").body["metadata"]["name"] == "slurm-12"
    assert job.ask("GET", f"{SECRETS}/slurm-12").body["data"] == {"a": "Yg=="}


def test_it_tells_of_steps_and_pods(job: Server) -> None:
    notes = {STEP: "{}", "slurm.phalanx.dev/pod.0": "[]"}
    done = job.patch(f"{JOBS}/slurm-12", {"metadata": {"annotations": notes}})
    assert done.code == 200, done.body
    assert notes.items() <= done.body["metadata"]["annotations"].items()


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"phalanx.dev/queue": "others"}}},
        {"metadata": {"annotations": {"phalanx.dev/nice": "-1000"}}},
        {"metadata": {"annotations": {"slurm.phalanx.dev/job": None}}},
        {"metadata": {"annotations": None}},
        {"spec": {"suspend": False}},
    ],
)
def test_and_changes_nothing_else(job: Server, change: dict[str, Any]) -> None:
    assert "may only write the annotations about its steps and pods" in told(job.patch(f"{JOBS}/slurm-12", change))
