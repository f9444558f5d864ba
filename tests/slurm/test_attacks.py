"""Attacks of one user on another and on root by Slurm's commands: each is refused, or affects only the attacker.

Further attacks are in the tests of the attacked parts: `test_api_sight`, `test_queues_of_accounts`,
`test_a_namespace_each`, `test_cluster_ledger_shown`, and with real users `tests/cli/test_users_apart.py`.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from phalanx.client.connection import Object
from phalanx.embedded.login.admission import USERS, LoginAccount
from phalanx.kube.install.definitions import DEFINITIONS, QUEUES
from phalanx.slurm.cluster import admission, site
from phalanx.slurm.cluster.api import RequestRefused
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.ended import _components
from phalanx.slurm.jobs.steps import records
from phalanx.slurm.submission import manifest, numbers
from phalanx.slurm.submission.creation import SUBMISSIONS
from tests.embedded.login.test_rules import define, shared
from tests.slurm.test_api_sight import Elsewhere, asked, submit

RBAC = "rbac.authorization.k8s.io"
HOME = "user-bob"
JOBS = f"/apis/batch/v1/namespaces/{HOME}/jobs"
SECRETS = f"/api/v1/namespaces/{HOME}/secrets"
STEERING = "\x1b]0;owned\x07\x9b31m\nroot"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Elsewhere]]:
    uids = {"ada": 60021, "bob": 60022}
    accounts = [LoginAccount(uid=uid, gid=uid, name=name, groups=(USERS,)) for name, uid in uids.items()]
    with asyncio.Runner() as runner:
        serving = shared(tmp_path_factory.mktemp("api"), *accounts)
        admin, *others = runner.run(serving.__aenter__())
        runner.run(define(admin, dict(DEFINITIONS[QUEUES])))
        found = {name: Elsewhere(runner, one) for name, one in zip(("root", *uids), (admin, *others), strict=True)}
        for name in uids:
            found[name].namespace = f"user-{name}"
        for path, body in zip(admission.PLACES, admission.owner_objects(), strict=True):
            found["root"].create(path, body)
        yield found
        runner.run(serving.__aexit__(None, None, None))


def test_nobody_says_at_the_ledger_who_asks(clients: dict[str, Elsewhere], monkeypatch: pytest.MonkeyPatch) -> None:
    """`/slurm/v1/ledger?asker=root&all=true`: what the scheduler is told comes from the API server."""
    api = clients["bob"]._server.api
    told: list[Any] = []

    async def tell(request: Any) -> Any:
        told.append(dict(request.query))
        raise OSError

    monkeypatch.setattr(api._paths._aggregated, "get", tell)
    answer = clients["bob"]._runner.run(
        clients["bob"]._server.ask("GET", "/slurm/v1/ledger?asker=root&all=true&asker=admin&numbers=1")
    )
    assert answer.code == 500  # the double's error
    assert told == [{"asker": ["bob"], "all": ["false"], "numbers": ["1"]}]


@pytest.mark.parametrize("how", ["merge", "json", "apply"])
def test_no_way_of_writing_gives_a_number(clients: dict[str, Elsewhere], how: str) -> None:
    bob, number = clients["bob"], numbers.take(clients["ada"], 1, 1)
    name = f"plain-{how}"
    body = manifest.job(numbers.take(bob, 1, 1), asked("bob"), site.Site(), {}, [])
    body["metadata"] = {"name": name, "labels": {"app": "x"}}
    bob.create(JOBS, body)
    label = {"slurm.phalanx.dev/number": str(number)}
    media, change = {
        "merge": ("application/merge-patch+json", {"metadata": {"labels": label}}),
        "json": (
            "application/json-patch+json",
            [{"op": "add", "path": "/metadata/labels/slurm.phalanx.dev~1number", "value": str(number)}],
        ),
        "apply": (
            "application/apply-patch+yaml",
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": label}},
        ),
    }[how]
    query = {"fieldManager": "me"} if how == "apply" else {}
    with pytest.raises(RequestRefused, match="cannot be changed"):
        bob.call("PATCH", f"{JOBS}/{name}", change, media, **query)


OBJECTS: dict[str, tuple[str, Object]] = {
    "a priority class": (
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "mine"}, "value": 999_999_999},
    ),
    "a queue": (
        "/apis/phalanx.dev/v1/queues",
        {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": "mine"}, "spec": {}},
    ),
    "a binding to operators": (
        f"/apis/{RBAC}/v1/clusterrolebindings",
        {"metadata": {"name": "phalanx:slurm-operator:bob"},
         "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "phalanx:slurm-operator"},
         "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "bob"}]},
    ),
    "a binding to operators at home": (
        f"/apis/{RBAC}/v1/namespaces/{HOME}/rolebindings",
        {"metadata": {"name": "operator"},
         "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "phalanx:slurm-operator"},
         "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "bob"}]},
    ),
    "a namespace": (
        "/api/v1/namespaces",
        {"metadata": {"name": "user-eve", "annotations": {"phalanx.dev/user": "ada", "phalanx.dev/uid": "0"}}},
    ),
    "the site": (site.PATH, {"metadata": {"name": site.SITE}, "data": {"members.lab": "bob"}}),
    "a rule of admission": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {"metadata": {"name": "x"}, "spec": {}},
    ),
    "a quota that opens the system's priorities": (
        f"/api/v1/namespaces/{HOME}/resourcequotas",
        {"metadata": {"name": "critical"}, "spec": {"hard": {"pods": "9"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OBJECTS)
def test_users_make_nothing_that_rules_others(clients: dict[str, Elsewhere], what: str) -> None:
    path, body = OBJECTS[what]
    with pytest.raises(RequestRefused) as refused:
        clients["bob"].create(path, body)
    assert refused.value.code == 403


def test_a_reservation_of_another_user_is_not_entered_by_a_label(clients: dict[str, Elsewhere]) -> None:
    """Reservations name groups; the label of a plain Job would put it into ada's, without any users of the site."""
    body = manifest.job(1, asked("bob"), site.Site(), {"phalanx.dev/reservation": "hers"}, [])
    body["metadata"]["name"] = "entered"
    body["metadata"]["labels"] = {"phalanx.dev/queue": "default", "phalanx.dev/group": "ada"}
    with pytest.raises(RequestRefused, match="names neither its user nor a group"):
        clients["bob"].create(JOBS, body)
    pod = {"metadata": {"name": "entered", "annotations": {"phalanx.dev/group": "ada"}},
           "spec": {"containers": [{"name": "a", "image": "host"}]}}  # fmt: skip
    with pytest.raises(RequestRefused, match="names neither its user nor a group"):
        clients["bob"].create(f"/api/v1/namespaces/{HOME}/pods", pod)


def test_a_numbered_job_is_its_users_before_the_site_has_users(clients: dict[str, Elsewhere]) -> None:
    """sacct tells whose a job was by this label."""
    number = numbers.take(clients["bob"], 1, 1)
    with pytest.raises(RequestRefused, match="names another user"):
        submit(clients["bob"], asked("ada"), number)


def test_a_number_of_ones_own_is_of_no_use_in_a_strangers_namespace(clients: dict[str, Elsewhere]) -> None:
    number = numbers.take(clients["bob"], 1, 1)
    body = manifest.job(number, asked("bob"), site.Site(), {}, [])
    with pytest.raises(RequestRefused, match="cannot create"):
        clients["bob"].create("/apis/batch/v1/namespaces/user-ada/jobs", body)


def test_a_secret_is_read_by_its_user_alone(clients: dict[str, Elsewhere]) -> None:
    """It has the script, the environment and the key of the step daemons."""
    ada, number = clients["ada"], numbers.take(clients["ada"], 1, 1)
    ada.create("/api/v1/namespaces/{namespace}/secrets", manifest.secret(number, asked("ada"), {"TOKEN": "hush"}))
    own = ada.get(f"/api/v1/namespaces/user-ada/secrets/slurm-{number}")
    assert base64.b64decode(own["data"]["TOKEN"]) == b"hush"
    for path in (f"/api/v1/namespaces/user-ada/secrets/slurm-{number}", "/api/v1/secrets"):
        with pytest.raises(RequestRefused) as refused:
            clients["bob"].get(path)
        assert refused.value.code == 403


def test_the_ledgers_words_steer_no_terminal() -> None:
    """sacct of root prints the names that users gave their jobs and steps."""
    ask = Ask(name=STEERING, user="bob", uid=1, gid=1, group="g", account="a", partition="p", comment=STEERING)
    step = msgspec.json.encode({"name": STEERING, "nodes": [STEERING]}).decode()
    words = msgspec.json.encode({"job": msgspec.json.encode(ask).decode(), "step.0": step}).decode()
    row = [1, 12, "COMPLETED", words, 1.0, 1.0, 9.0, 0, 0, "", "", "bob"]
    [job] = _components(row, [(2.0, 9.0, '["n1"]', "COMPLETED")])
    for text in (job.ask.name, job.ask.comment, job.steps[0].name, *job.steps[0].nodes):
        assert text.isprintable()
        assert "owned" in text


def test_steps_that_no_program_ran_are_read_within_bounds() -> None:
    for said in ({"start_s": 1e300}, {"tasks": 10**18}, {"tasks": -1}, {"end_s": "x"}, []):
        assert records.read({"slurm.phalanx.dev/step.1": msgspec.json.encode(said).decode()}) == {}
    assert records.read({f"slurm.phalanx.dev/step.{'9' * 5000}": "{}"}) == {}
    assert list(records.read({"slurm.phalanx.dev/step.1": "{}"})) == [1]


@pytest.mark.parametrize("count", ["0", "-1", "1e9", "9" * 400, "", "1;2", "\u0661"])
def test_nonsense_draws_no_number(clients: dict[str, Elsewhere], count: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        clients["bob"].call("POST", "/slurm/v1/numbers", count=count)
    assert refused.value.code == 400


def submission(user: str, number: int) -> dict[str, Any]:
    ask = asked(user)
    return {"secret": manifest.secret(number, ask, {"A": "b"}), "job": manifest.job(number, ask, site.Site(), {}, [])}


def test_a_submission_makes_a_job_with_its_secret_in_one_commit(clients: dict[str, Elsewhere]) -> None:
    bob = clients["bob"]
    number = numbers.take(bob, 1, 1)
    bob.call("POST", SUBMISSIONS, submission("bob", number), namespace=HOME)
    secret, job = bob.get(f"{SECRETS}/slurm-{number}"), bob.get(f"{JOBS}/slurm-{number}")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"slurm-{number}", "uid": job["metadata"]["uid"]}
    assert secret["metadata"]["ownerReferences"] == [owner]
    assert int(job["metadata"]["resourceVersion"]) == int(secret["metadata"]["resourceVersion"]) + 1


def test_a_submission_does_not_exceed_a_quota_by_one(clients: dict[str, Elsewhere]) -> None:
    bob, root = clients["bob"], clients["root"]
    path, number = f"/api/v1/namespaces/{HOME}/resourcequotas/phalanx", numbers.take(bob, 1, 1)
    before = root.get(path)["spec"]["hard"]["phalanx.dev/objects"]

    def refused(limit: int) -> int:
        """Return how many objects the namespace holds, as the refusal reports it."""
        root.patch(path, {"spec": {"hard": {"phalanx.dev/objects": str(limit)}}})
        with pytest.raises(RequestRefused) as error:
            bob.call("POST", SUBMISSIONS, submission("bob", number), namespace=HOME)
        found = re.search(r"used: phalanx.dev/objects=(\d+),", error.value.message)
        assert found is not None
        return int(found[1])

    try:
        used = refused(1)
        assert refused(used + 1) == used + 1  # there is room for the first object alone
        assert root.find(f"{JOBS}/slurm-{number}") is None
        root.patch(path, {"spec": {"hard": {"phalanx.dev/objects": str(used + 2)}}})
        bob.call("POST", SUBMISSIONS, submission("bob", number), namespace=HOME)
    finally:
        root.patch(path, {"spec": {"hard": {"phalanx.dev/objects": before}}})


@pytest.mark.parametrize(
    "case",
    [
        "of a stranger's number",
        "in a stranger's namespace",
        "of another user",
        "twice",
        "wrong",
        "without",
        "to try it",
    ],
)
def test_a_submission_that_is_refused_makes_nothing(clients: dict[str, Elsewhere], case: str) -> None:
    bob, namespace = clients["bob"], HOME
    number = numbers.take(clients["ada" if "number" in case else "bob"], 1, 1)
    body, query = submission("ada" if "user" in case else "bob", number), dict[str, str]()
    match case:
        case "in a stranger's namespace":
            namespace = "user-ada"
        case "twice":
            bob.create(SECRETS, body["secret"])
        case "wrong":
            del body["job"]["spec"]["template"]["spec"]["containers"]
        case "without":
            del body["secret"]
        case "to try it":
            query = {"dryRun": "All"}
    with pytest.raises(RequestRefused) as refused:
        bob.call("POST", SUBMISSIONS, body, namespace=namespace, **query)
    codes = {"twice": 409, "wrong": 422, "of another user": 422, "without": 400, "to try it": 400}
    assert refused.value.code == codes.get(case, 403)
    for path, made in ((JOBS, False), (SECRETS, case == "twice")):
        assert (clients["root"].find(f"{path.replace(HOME, namespace)}/slurm-{number}") is not None) == made


def test_the_hold_of_an_administrator_is_not_its_users_to_end(clients: dict[str, Elsewhere]) -> None:
    bob, root = clients["bob"], clients["root"]
    path = f"{JOBS}/slurm-{submit(bob, asked('bob'), numbers.take(bob, 1, 1))}"
    held, released = ({"metadata": {"annotations": {"phalanx.dev/hold": why}}} for why in ("JobHeldUser", None))
    bob.patch(path, held)
    bob.patch(path, released)  # a hold of one's own
    root.patch(path, {"metadata": {"annotations": {"phalanx.dev/hold": "JobHeldAdmin"}}})
    for change in (held, released):
        with pytest.raises(RequestRefused, match="only operators may release"):
            bob.patch(path, change)
    bob.patch(path, {"metadata": {"annotations": {"note": "of bob's"}}})
    root.patch(path, released)
