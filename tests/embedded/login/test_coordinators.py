"""`login/coordinators.py`: a coordinator who writes to the API server changes the own accounts and nothing else.

Accounts: lab with vision below it, and chem. head coordinates lab; prod is a queue that is no account."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from phalanx.embedded.login.admission import USERS, LoginAccount
from phalanx.embedded.login.coordinators import BINDINGS, POLICIES, ROLE, RULES
from phalanx.kube.install.definitions import DEFINITIONS, QUEUES
from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.login.test_rules import define, shared

SITE = "/api/v1/namespaces/kube-system/configmaps/phalanx-slurm"
QUEUE = "/apis/phalanx.dev/v1/queues"
BINDING = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ROLE}"
MERGE = "application/merge-patch+json"
NAMED = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "head"}
DATA = {
    "site": "{}",
    "path.lab": "lab", "path.vision": "lab/vision", "path.chem": "chem",
    "account.lab": '{"shares":10}', "account.vision": "{}", "account.chem": "{}",
    "users.lab": "{}", "users.chem": '{"yan":{}}', "members.lab": "head", "members.chem": "yan",
    "coordinators.lab": "head",
}  # fmt: skip
TREE: dict[str, dict[str, Any]] = {"lab": {"weight": 10}, "vision": {"parent": "lab"}, "chem": {}, "prod": {}}


class Served(NamedTuple):
    """The clients of a server. `root` is its admin; head coordinates lab, and yan is a user."""

    runner: asyncio.Runner
    clients: dict[str, InProcess]

    def ask(self, user: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
        media = MERGE if method == "PATCH" else "application/json"
        found = self.runner.run(self.clients[user].ask(method, path, body, media))
        return found.code, found.body.get("message", "")

    def site(self) -> dict[str, str]:
        found: dict[str, str] = self.runner.run(self.clients["root"].ask("GET", SITE)).body["data"]
        return found

    def restore(self) -> None:
        """Write all objects as they were before the first test."""
        self.ask("root", "PATCH", SITE, {"data": {**dict.fromkeys(self.site()), **DATA}})
        self.ask("root", "PATCH", BINDING, {"subjects": [NAMED]})
        self.ask("root", "DELETE", QUEUE)
        for name, spec in TREE.items():
            assert self.ask("root", "POST", QUEUE, queue(name, spec))[0] == 201


def queue(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    accounts = [
        LoginAccount(uid=uid, gid=uid, name=name, groups=(USERS,)) for name, uid in (("head", 60001), ("yan", 60002))
    ]
    with asyncio.Runner() as runner:
        serving = shared(tmp_path_factory.mktemp("api"), *accounts)
        clients = dict(zip(("root", "head", "yan"), runner.run(serving.__aenter__()), strict=True))
        runner.run(define(clients["root"], dict(DEFINITIONS[QUEUES])))
        served = Served(runner, clients)
        body = {"metadata": {"name": "phalanx-slurm"}, "data": DATA}
        served.ask("root", "POST", SITE.rpartition("/")[0], body)
        served.restore()
        yield served
        runner.run(serving.__aexit__(None, None, None))


@pytest.fixture
def served(one_server: Served) -> Iterator[Served]:
    yield one_server
    one_server.restore()


def patched(change: dict[str, str | None]) -> tuple[str, Any]:
    return SITE, {"data": change}


def below(name: str, path: str) -> tuple[str, Any]:
    return patched({f"path.{name}": path, f"account.{name}": "{}"})


# --- allowed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        patched({"users.lab": '{"yan":{"shares":5}}', "members.lab": "head,yan"}),
        patched({"members.vision": "yan", "coordinators.vision": "yan"}),
        patched({"coordinators.lab": "head,yan"}),
        patched({"account.vision": '{"shares":7}'}),
        below("mine", "lab/mine"),
        below("deep", "lab/vision/deep"),
        (f"{QUEUE}/lab", {"spec": {"accounts": {"yan": 5}}}),
        (f"{QUEUE}/vision", {"spec": {"weight": 7}}),
        (f"{QUEUE}/vision", {"spec": {"limits": {"perJob": {"cpu": 4}}}}),
        (BINDING, {"subjects": [NAMED, {**NAMED, "name": "yan"}]}),
    ],
)
def test_a_coordinator_changes_the_own_accounts(served: Served, path: str, body: Any) -> None:
    code, message = served.ask("head", "PATCH", path, body)
    assert code == 200, message


def test_a_coordinator_makes_the_queue_of_a_new_account(served: Served) -> None:
    assert served.ask("head", "PATCH", *below("mine", "lab/mine"))[0] == 200
    code, message = served.ask("head", "POST", QUEUE, queue("mine", {"parent": "lab", "weight": 3}))
    assert code == 201, message


def test_a_coordinator_of_a_lower_account_is_no_coordinator_of_the_one_above(served: Served) -> None:
    served.ask("root", "PATCH", *patched({"coordinators.lab": None, "coordinators.vision": "head"}))
    assert served.ask("head", "PATCH", *patched({"members.vision": "yan"}))[0] == 200
    code, message = served.ask("head", "PATCH", *patched({"members.lab": "yan"}))
    assert (code, "you do not coordinate" in message) == (403, True)
    code, message = served.ask("head", "PATCH", *patched({"account.vision": '{"shares":99}'}))
    assert (code, "you do not coordinate" in message) == (403, True), "the limits of the own account are another's"


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (*patched({"site": '{"admins":{"head":"Administrator"}}'}), "may change only accounts"),
        (*patched({"coordinators.chem": "head"}), "you do not coordinate"),
        (*patched({"account.lab": '{"shares":99}'}), "you do not coordinate"),
        (*patched({"account.vision": None}), "coordinators may not delete accounts"),
        (*patched({"path.vision": None}), "you do not coordinate"),
        (*patched({"users.chem": "{}"}), "you do not coordinate"),
        (*patched({"members.chem": "head,yan"}), "you do not coordinate"),
        (*patched({"account.ghost": "{}"}), "you do not coordinate"),
        (*patched({"path.chem": "lab/chem"}), "you do not coordinate"),
        (*patched({"path.chem": None}), "you do not coordinate"),
        (*patched({"path.vision": "vision"}), "you do not coordinate"),
        (*below("mine", "mine"), "you do not coordinate"),
        (*below("mine", "lab/chem/mine"), "the account above it"),
        (*below("mine", "lab/ghost/mine"), "the account above it"),
        (*below("mine", "lab/vision"), "the account above it"),
        (SITE, {"immutable": True}, "only its data"),
        (SITE, {"metadata": {"finalizers": ["a/b"]}}, "only its data"),
        (SITE, {"metadata": {"labels": {"a": "b"}}}, "only its data"),
        (f"{QUEUE}/chem", {"spec": {"weight": 0}}, "you do not coordinate"),
        (f"{QUEUE}/prod", {"spec": {"weight": 9}}, "you do not coordinate"),
        (f"{QUEUE}/vision", {"spec": {"parent": "chem"}}, "the account above it"),
        (f"{QUEUE}/vision", {"spec": {"parent": None}}, "the account above it"),
        (f"{QUEUE}/lab", {"spec": {"parent": "prod"}}, "the account above it"),
        (f"{QUEUE}/lab", {"spec": {"weight": 99}}, "may change only the shares of users"),
        (f"{QUEUE}/lab", {"spec": {"limits": {"perJob": {"wall": "1h"}}}}, "may change only the shares of users"),
        (f"{QUEUE}/vision", {"spec": {"priority": 9}}, "may change only the shares of users"),
        (f"{QUEUE}/vision", {"spec": {"gang": False}}, "may change only the shares of users"),
        (f"{QUEUE}/vision", {"metadata": {"labels": {"a": "b"}}}, "may change only the shares of users"),
        (BINDING, {"subjects": []}, "would lose the role"),
        (BINDING, {"subjects": [NAMED, {**NAMED, "kind": "Group", "name": "system:authenticated"}]}, "may be named"),
    ],
)
def test_a_coordinator_gets_no_further(served: Served, path: str, body: Any, why: str) -> None:
    before = served.site()
    code, message = served.ask("head", "PATCH", path, body)
    assert code == 403
    assert why in message
    assert served.site() == before


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("mine", {}, "the account above it"),
        ("mine", {"parent": "chem"}, "the account above it"),
        ("mine", {"parent": "lab", "order": "fifo"}, "only parent, weight, accounts and limits"),
        ("mine", {"parent": "lab", "quotas": [{"flavor": "", "guaranteed": {"cpu": 9}}]}, "accounts and limits"),
    ],
)
def test_a_coordinator_makes_no_other_queue(served: Served, name: str, spec: Any, why: str) -> None:
    code, message = served.ask("head", "POST", QUEUE, queue(name, spec))
    assert code == 403
    assert why in message


def test_a_name_within_another_name_gives_no_right(served: Served) -> None:
    """`coordinators.lab` is a list of whole names."""
    served.ask("root", "PATCH", *patched({"coordinators.lab": "headmaster,overhead"}))
    code, message = served.ask("head", "PATCH", *patched({"members.lab": "yan"}))
    assert (code, "you do not coordinate" in message) == (403, True)


def test_a_queue_of_an_accounts_name_is_not_had_by_naming_an_account_like_it(served: Served) -> None:
    served.ask("head", "PATCH", *below("prod", "lab/prod"))
    served.ask("head", "PATCH", *patched({"coordinators.prod": "head"}))
    code, message = served.ask("head", "PATCH", f"{QUEUE}/prod", {"spec": {"weight": 9}})
    assert (code, "another place in the tree" in message) == (403, True)
    code, message = served.ask("head", "DELETE", f"{QUEUE}/prod")
    assert (code, 'User "head" cannot delete' in message) == (403, True)


def test_a_stranger_has_no_right_to_any_of_it(served: Served) -> None:
    for path, body in (
        patched({"members.chem": "yan"}),
        (f"{QUEUE}/chem", {"spec": {"weight": 9}}),
        (BINDING, {"subjects": []}),
    ):
        code, message = served.ask("yan", "PATCH", path, body)
        assert (code, 'User "yan" cannot patch' in message) == (403, True)


def test_a_former_coordinator_can_write_nothing_although_the_role_is_left(served: Served) -> None:
    served.ask("root", "PATCH", *patched({"coordinators.lab": None}))
    for path, body in (patched({"members.vision": "yan"}), (f"{QUEUE}/vision", {"spec": {"weight": 9}})):
        code, message = served.ask("head", "PATCH", path, body)
        assert (code, "you do not coordinate" in message) == (403, True)


def test_an_operator_is_held_to_no_account(served: Served) -> None:
    """The admission policies restrict users who may patch the site's objects, but may not replace them."""
    assert served.ask("root", "PATCH", *patched({"account.chem": None, "path.chem": None}))[0] == 200
    assert served.ask("root", "PATCH", BINDING, {"subjects": []})[0] == 200


# --- the objects ------------------------------------------------------------------------------------------------------


def test_each_policy_is_bound_and_denies() -> None:
    assert [one["spec"]["policyName"] for one in BINDINGS] == [one["metadata"]["name"] for one in POLICIES]
    assert all(one["spec"]["validationActions"] == ["Deny"] for one in BINDINGS)
    assert all(one["spec"]["failurePolicy"] == "Fail" for one in POLICIES)


def test_the_role_replaces_and_deletes_nothing() -> None:
    verbs = {verb for rule in RULES for verb in rule["verbs"]}
    assert verbs == {"get", "create", "patch"}
    for rule in RULES:
        assert "create" not in rule["verbs"] or rule["resources"] == ["queues"]
        assert rule.get("resourceNames") or rule["resources"] == ["queues"]
