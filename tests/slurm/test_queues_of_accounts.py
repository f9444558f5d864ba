"""A user tries to run jobs in another user's account without `sbatch -A`, by the labels of every kind of job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from phalanx.client.connection import Object
from phalanx.dialects.kai import kinds as kai
from phalanx.dialects.kube_scheduler.koordinator import kinds as koordinator
from phalanx.dialects.kueue import kinds as kueue
from phalanx.dialects.volcano import kinds as volcano
from phalanx.dialects.yunikorn.gangs import QUEUE_PREFIX
from phalanx.embedded.apiserver.auth.authentication import token_of
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.login.admission import CONTROL_PLANE, USERS, LoginAccount
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS
from phalanx.slurm.cluster import admission, site
from phalanx.slurm.cluster.api import RequestRefused
from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.login.test_rules import define, definition, pod, shared
from tests.slurm.test_sacctmgr_coordinators import Client

UIDS = {"ada": 60011, "bob": 60012}
DENIED = "Invalid account"
HOME = "user-bob"
QUEUE, GROUP = "phalanx.dev/queue", "phalanx.dev/group"
KUBEFLOW = f"/apis/kubeflow.org/v1/namespaces/{HOME}/pytorchjobs"
JOBS = f"/apis/batch/v1/namespaces/{HOME}/jobs"
PODS = f"/api/v1/namespaces/{HOME}/pods"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """Accounts lab, of ada, and chem, of bob; the queue `open` is no account's."""
    accounts = [LoginAccount(uid=uid, gid=uid, name=name, groups=(USERS, "vision")) for name, uid in UIDS.items()]
    with asyncio.Runner() as runner:
        serving = shared(tmp_path_factory.mktemp("api"), *accounts)
        admin, *others = runner.run(serving.__aenter__())
        runner.run(define(admin, definition()))
        controller = InProcess(admin.api, token_of(admin.api.settings.tokens, CONTROL_PLANE))
        account = AsAccount(admin.api, admin.token)
        named = zip(("root", *UIDS, "controller", "account"), (admin, *others, controller, account), strict=True)
        found = {name: Client(runner, one) for name, one in named}
        here = site.Site(
            accounts={name: site.Account() for name in ("lab", "chem", "above")},
            users={"ada": [site.Association(account="lab")], "bob": [site.Association(account="chem")]},
        )
        meta = {"name": site.SITE, "namespace": "kube-system"}
        found["root"].create(
            site.PATH, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": site.keys(here)}
        )
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": HOME}
        found["root"].create(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HOME}/rolebindings",
            {"metadata": {"name": "all"}, "subjects": [subject],
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}},
        )  # fmt: skip
        admission.enforce(found["root"])
        yield found
        runner.run(serving.__aexit__(None, None, None))


class AsAccount(InProcess):
    """The admin, acting as a service account of bob's namespace that may do everything there."""

    def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> RawRequest:
        asked = super().request(method, path, body, media)
        asked.headers[b"impersonate-user"] = f"system:serviceaccount:{HOME}:default".encode()
        return asked


def job(name: str, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> Object:
    return pod_of(name, labels, notes) | {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "host"}]}}}
    }


def pod_of(name: str, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> Object:
    body = pod(name)
    body["metadata"] |= {"labels": labels or {}, "annotations": notes or {}}
    return body


def framework(name: str, labels: dict[str, str], queue: str = "") -> Object:
    policy = {"runPolicy": {"schedulingPolicy": {"queue": queue}}} if queue else {}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": policy}


ATTACKS = {
    "a Job's label": (JOBS, job("x", {QUEUE: "lab"})),
    "an account that has no users": (JOBS, job("x", {QUEUE: "above"})),
    "a pod's label": (PODS, pod_of("x", {QUEUE: "lab"})),
    "a pod's annotation": (PODS, pod_of("x", notes={QUEUE: "lab"})),
    "a framework's label": (KUBEFLOW, framework("x", {QUEUE: "lab"})),
    "a framework's field": (KUBEFLOW, framework("x", {}, "lab")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_word_opens_the_queue_of_another_account(clients: dict[str, Client], attack: str) -> None:
    path, body = ATTACKS[attack]
    with pytest.raises(RequestRefused, match=DENIED):
        clients["bob"].create(path, body)


@pytest.mark.parametrize("path", [JOBS, PODS, KUBEFLOW])
def test_label_changes_are_judged_too(clients: dict[str, Client], path: str) -> None:
    make = {JOBS: job, PODS: pod_of, KUBEFLOW: framework}[path]
    clients["bob"].create(path, make("later", {QUEUE: "chem"}))
    with pytest.raises(RequestRefused, match=DENIED):
        clients["bob"].patch(f"{path}/later", {"metadata": {"labels": {QUEUE: "lab"}}})
    if path == KUBEFLOW:
        clients["bob"].patch(f"{path}/later", {"metadata": {"labels": {QUEUE: None}}})
        with pytest.raises(RequestRefused, match=DENIED):
            clients["bob"].patch(f"{path}/later", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "lab"}}}})
    clients["bob"].patch(f"{path}/later", {"metadata": {"labels": {"colour": "red"}}})


def test_controllers_make_pods_for_the_user_of_the_namespace(clients: dict[str, Client]) -> None:
    """The template of a Deployment, or of a framework's job, names the queue."""
    with pytest.raises(RequestRefused, match=DENIED):
        clients["controller"].create(PODS, pod_of("made", {QUEUE: "lab"}))
    with pytest.raises(RequestRefused, match=DENIED):
        clients["controller"].create(JOBS, job("made", {QUEUE: "lab"}))
    clients["controller"].create(PODS, pod_of("made", {QUEUE: "chem"}))


def test_service_accounts_are_the_user_of_their_namespace(clients: dict[str, Client]) -> None:
    with pytest.raises(RequestRefused, match=DENIED):
        clients["account"].create(JOBS, job("of-account", {QUEUE: "lab"}))
    clients["account"].create(JOBS, job("of-account", {QUEUE: "chem"}))


def test_own_accounts_and_queues_of_no_account_are_open(clients: dict[str, Client]) -> None:
    clients["bob"].create(JOBS, job("own", {QUEUE: "chem"}))
    clients["bob"].create(JOBS, job("no-account", {QUEUE: "open"}))
    clients["bob"].create(PODS, pod_of("own", {QUEUE: "chem"}))
    clients["root"].create(JOBS, job("by-root", {QUEUE: "lab"}))
    taken = {"own": "chem", "no-account": "open", "by-root": "lab"}
    made = {name: clients["root"].get(f"{JOBS}/{name}") for name in taken}
    assert {name: each["metadata"]["labels"][QUEUE] for name, each in made.items()} == taken


@pytest.mark.parametrize("how", ["labels", "notes"])
def test_no_job_is_in_the_group_of_another_user(clients: dict[str, Client], how: str) -> None:
    """Limits and reservations of a group would be used up by a stranger."""
    with pytest.raises(RequestRefused, match="names neither its user nor a group of the user"):
        clients["bob"].create(JOBS, job("grouped", **{how: {GROUP: "ada"}}))
    clients["bob"].create(JOBS, job(f"own-{how}", **{how: {GROUP: "bob"}}))
    clients["bob"].create(JOBS, job(f"team-{how}", **{how: {GROUP: "vision"}}))


def test_words_of_dialects_name_queues_of_trees_of_their_own() -> None:
    """KAI's, Volcano's, YuniKorn's, Kueue's and Koordinator's labels name no Queue of ours, whatever they say: names of
    Queues have no slash."""
    named = (
        kai.tree_queue("lab"), volcano.said_queue("lab"), f"{QUEUE_PREFIX}lab", kueue.local_queue("user-bob", "lab"),
        koordinator.said_quota("user-bob", "lab"),
    )  # fmt: skip
    assert all("/" in name for name in named), named


def test_every_framework_that_is_read_is_judged() -> None:
    assert {kind.group for kind in FRAMEWORK_KINDS} == set(admission.FRAMEWORKS)


def test_no_job_raises_its_own_priority(clients: dict[str, Client]) -> None:
    """`sbatch --nice=-1000` is refused by the command; an annotation is refused by the API server."""
    nice = "phalanx.dev/nice"
    for path, make in ((JOBS, job), (PODS, pod_of)):
        with pytest.raises(RequestRefused, match="only operators may raise"):
            clients["bob"].create(path, make("pushed", notes={nice: "-1000"}))
    clients["bob"].create(JOBS, job("modest", notes={nice: "1000"}))
    with pytest.raises(RequestRefused, match="only operators may raise"):
        clients["bob"].patch(f"{JOBS}/modest", {"metadata": {"annotations": {nice: "-1"}}})
    clients["root"].create(JOBS, job("pushed-by-root", notes={nice: "-1000"}))
