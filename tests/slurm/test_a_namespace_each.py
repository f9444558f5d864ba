"""Slurm's users on a cluster, with exactly the objects that the guide prints: one acts as another, and is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.client.connection import Object
from phalanx.embedded.apiserver.auth.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import RequestRefused
from phalanx.slurm.jobs.steps.pods.place import Gone, allocation
from phalanx.slurm.submission import manifest, numbers
from tests.embedded.apiserver.inprocess import InProcess
from tests.slurm.test_api_sight import Elsewhere, asked

ROOT = Path(__file__).parents[2]
RBAC = "rbac.authorization.k8s.io/v1"
PLACES = {
    "ConfigMap": "/api/v1/namespaces/%s/configmaps",
    "Namespace": "/api/v1/namespaces",
    "Role": f"/apis/{RBAC}/namespaces/%s/roles",
    "RoleBinding": f"/apis/{RBAC}/namespaces/%s/rolebindings",
    "ClusterRole": f"/apis/{RBAC}/clusterroles",
    "ClusterRoleBinding": f"/apis/{RBAC}/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def place(body: Object) -> str:
    path = PLACES[body["kind"]]
    return path % body["metadata"]["namespace"] if "%s" in path else path


def printed(user: str) -> list[Object]:
    """Return the guide's manifests for ada, with this user's name."""
    page = (ROOT / "docs" / "guide" / "slurm.md").read_text()
    found = re.search(r"<!-- of a user on a cluster -->\n```yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return list(yaml.safe_load_all(re.sub(r"\bada\b", user, found[1])))


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Elsewhere]]:
    data = tmp_path_factory.mktemp("api")
    users = [("admin", "admin", (MASTERS,)), ("ada", "ada", ()), ("bob", "bob", ())]
    with asyncio.Runner() as runner:
        data.mkdir(exist_ok=True)
        write_tokens(data / "tokens.csv", users)
        serving = InProcess.started(data)
        admin = runner.run(serving.__aenter__())
        root = Elsewhere(runner, admin)
        for file in ("roles.yaml", "numbers.yaml", "namespaces.yaml"):
            for body in yaml.safe_load_all((ROOT / "deploy" / "components" / "slurm" / file).read_text()):
                root.create(place(body), body)
        found = {"root": root}
        for name, *_ in users[1:]:
            for body in printed(name):
                root.create(place(body), body)
            found[name] = Elsewhere(runner, InProcess(admin.api, token_of(data / "tokens.csv", name)))
            found[name].namespace = f"user-{name}"
        yield found
        runner.run(serving.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def number(clients: dict[str, Elsewhere]) -> int:
    """A job of ada's, with the pod that its controller would make, which runs."""
    ada, root = clients["ada"], clients["root"]
    found = numbers.take(ada, 1, 1)
    ask = asked("ada", uid=1001, gid=1001)
    secret = manifest.secret(found, ask, {"PHALANX_STEP_KEY": "k"})
    ada.create("/api/v1/namespaces/{namespace}/secrets", secret)
    made = ada.create("/apis/batch/v1/namespaces/{namespace}/jobs", manifest.job(found, ask, site.Site(), {}, []))
    template = made["spec"]["template"]
    meta = {"name": f"slurm-{found}-0-abcde", "labels": template["metadata"]["labels"],
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"}}  # fmt: skip
    root.create("/api/v1/namespaces/user-ada/pods", {"metadata": meta, "spec": template["spec"]})
    return found


def test_no_step_runs_in_the_job_of_another_user(clients: dict[str, Elsewhere], number: int) -> None:
    """Bob runs `srun --jobid=J --overlap id`, and a modified command without checks."""
    with pytest.raises(Gone):
        allocation(clients["bob"], number, 0.1)
    for path in ("secrets", "pods"):
        with pytest.raises(RequestRefused, match="cannot list"):
            clients["bob"].get(f"/api/v1/namespaces/user-ada/{path}")
    with pytest.raises(RequestRefused, match="cannot get"):
        clients["bob"].get(f"/api/v1/namespaces/user-ada/secrets/slurm-{number}")
    with pytest.raises(RequestRefused, match="cannot get"):
        clients["bob"].get(f"/api/v1/namespaces/user-ada/pods/slurm-{number}-0-abcde/exec", command="id", stdout="true")
    with pytest.raises(PhalanxError, match="is pending execution"):  # its owner gets on to its pods
        allocation(clients["ada"], number, 0.0)


def test_no_job_of_another_user_is_changed_or_deleted(clients: dict[str, Elsewhere], number: int) -> None:
    path = f"/apis/batch/v1/namespaces/user-ada/jobs/slurm-{number}"
    with pytest.raises(RequestRefused, match="cannot delete"):
        clients["bob"].delete(path)
    with pytest.raises(RequestRefused, match="cannot patch"):
        clients["bob"].patch(path, {"metadata": {"annotations": {"phalanx.dev/hold": "x"}}})
    with pytest.raises(RequestRefused, match="cannot delete"):
        clients["bob"].delete(path.rpartition("/")[0])


def binding(name: str, namespace: str, *subjects: Object) -> Object:
    reference = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": "phalanx:slurm-user"}
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {"apiVersion": RBAC, "kind": kind, "metadata": meta, "roleRef": reference, "subjects": list(subjects)}


ADA, BOB = ({"apiGroup": RBAC.partition("/")[0], "kind": "User", "name": name} for name in ("ada", "bob"))
EVERYBODY = {"apiGroup": RBAC.partition("/")[0], "kind": "Group", "name": "system:authenticated"}


@pytest.mark.parametrize(
    "body",
    [
        binding("phalanx:slurm-user", "default", ADA),
        binding("phalanx:slurm-user", "default", ADA, BOB),
        binding("another", "user-ada", BOB),
        binding("another", "user-ada", ADA),
        binding("phalanx:slurm-user", "default", EVERYBODY),
        binding("everywhere", "", ADA),
    ],
    ids=lambda body: f"{body['metadata']['name']} for {len(body['subjects'])}",
)
def test_an_admin_does_not_put_two_users_into_a_namespace(clients: dict[str, Elsewhere], body: Any) -> None:
    with pytest.raises(RequestRefused, match="Give each user a namespace"):
        clients["root"].create(place(body), body)


def test_a_binding_is_not_widened_later(clients: dict[str, Elsewhere]) -> None:
    path = f"/apis/{RBAC}/namespaces/user-ada/rolebindings/phalanx:slurm-user"
    for subjects in ([ADA, BOB], [BOB], [EVERYBODY]):
        with pytest.raises(RequestRefused, match="Give each user a namespace"):
            clients["root"].patch(path, {"subjects": subjects})


def test_a_user_gives_nobody_more_than_he_has(clients: dict[str, Elsewhere]) -> None:
    """phalanx:slurm-user may make Roles and RoleBindings, for the tokens of jobs."""
    path = f"/apis/{RBAC}/namespaces/user-bob"
    rule = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]}
    with pytest.raises(RequestRefused, match="attempting to grant"):
        clients["bob"].create(f"{path}/roles", {"metadata": {"name": "more"}, "rules": [rule]})
    with pytest.raises(RequestRefused):
        clients["bob"].create(f"/apis/{RBAC}/namespaces/user-ada/rolebindings", binding("mine", "user-ada", BOB))


def pod(**spec: Any) -> Object:
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "main", "image": "host"}], **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"securityContext": {"runAsUser": 0}},
        {"securityContext": {"runAsUser": 1002}},
        {"securityContext": {"runAsUser": 1001},
         "containers": [{"name": "main", "image": "host", "securityContext": {"runAsUser": 0}}]},
        {"securityContext": {"runAsUser": 1001},
         "initContainers": [{"name": "first", "image": "host", "securityContext": {"runAsUser": 0}}]},
        {"containers": [{"name": "main", "image": "web", "securityContext": {"runAsUser": 0}}]},
    ],
)  # fmt: skip
def test_pods_of_a_user_run_as_the_user(clients: dict[str, Elsewhere], spec: Any) -> None:
    with pytest.raises(RequestRefused, match="run as its user"):
        clients["root"].create("/api/v1/namespaces/user-ada/pods", pod(**spec))
    clients["root"].create("/api/v1/namespaces/user-ada/pods", pod(securityContext={"runAsUser": 1001}))


def test_a_user_draws_the_first_job_number_of_a_cluster(clients: dict[str, Elsewhere], number: int) -> None:
    assert number >= 1
    assert numbers.take(clients["bob"], 3, 1) == number + 1
    assert numbers.take(clients["bob"], 1, 1) == number + 4
