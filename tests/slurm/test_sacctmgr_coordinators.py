"""A coordinator as an ordinary user of the cluster: sacctmgr, and attempts with the user's own tokens."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest

from phalanx.cli.commands.work.slurm import apply
from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.embedded.login.admission import USERS, LoginAccount
from phalanx.embedded.login.coordinators import ROLE
from phalanx.kube.install.definitions import DEFINITIONS, QUEUES
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.commands.accounting import sacctmgr
from phalanx.slurm.commands.accounting.entities.users import UNAFFECTED
from phalanx.slurm.commands.accounting.entities.words import DENIED as UNPRIVILEGED
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import numbers
from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.login.test_rules import define, shared

SITE = f"{site.PATH}/{site.SITE}"
QUEUE = "/apis/phalanx.dev/v1/queues"
JOBS = "/apis/batch/v1/namespaces/user-yan/jobs"
NAMES = ("head", "yan", "oper")
UIDS = {"root": 0, **{name: 60001 + at for at, name in enumerate(NAMES)}}
BINDING = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ROLE}"
NAMED = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "head"}
DENIED = "Access/permission denied"
ADDING = " Problem adding {}: Access/permission denied"


class Client(ApiClient):
    """The API client of a command, for the server in this process."""

    def __init__(self, runner: asyncio.Runner, server: InProcess) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser(token="t"), "default")
        self._runner, self._server = runner, server

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> bytes:
        target = f"{self.path(path)}?{urlencode(query)}" if query else self.path(path)
        answer = self._runner.run(self._server.ask(method, target, body, kind))
        if answer.code >= 300:
            raise RequestRefused(answer.code, answer.body["message"])
        return json.dumps(answer.body).encode()

    def with_token(self, token: str) -> Client:
        return Client(self._runner, InProcess(self._server.api, token))


class Machine:
    """The clients of its users; `root` is the admin. `sacctmgr` runs as one of them."""

    def __init__(self, clients: dict[str, Client], patch: pytest.MonkeyPatch) -> None:
        self.clients, self._patch = clients, patch

    def sacctmgr(self, user: str, line: str, *, trusted: bool = False) -> int:
        """`trusted`: the command makes no checks, like one that its user has modified."""
        uid = UIDS[user]
        self._patch.setattr(ApiClient, "open", lambda: self.clients[user])
        self._patch.setattr(os, "getuid", lambda: 0 if trusted else uid)
        self._patch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd((user, "x", uid, uid, "", "/", "/bin/sh")))
        return sacctmgr.run(line.split())

    def fails(self, user: str, line: str, *, trusted: bool = False) -> str:
        with pytest.raises(Usage) as error:
            self.sacctmgr(user, line, trusted=trusted)
        return error.value.text

    @property
    def site(self) -> site.Site:
        return site.load(self.clients["root"])

    def queue(self, name: str) -> Any:
        return self.clients["root"].get(f"{QUEUE}/{name}")["spec"]


LINES = (
    "add account lab fairshare=10", "add account vision parent=lab", "add account chem",
    "add user head account=lab", "add user yan account=chem", "add user oper account=chem",
    "add coordinator account=lab names=head", "modify user oper set adminlevel=operator",
)  # fmt: skip


class Kept(NamedTuple):
    """The objects before each test."""

    site: dict[str, str]
    queues: dict[str, Any]
    subjects: list[Any]

    @classmethod
    def of(cls, root: Client) -> Kept:
        queues = {one["metadata"]["name"]: one["spec"] for one in root.get(QUEUE)["items"]}
        return cls(root.get(SITE)["data"], queues, root.get(BINDING).get("subjects", []))

    def restore(self, root: Client) -> None:
        now = Kept.of(root)
        if now.site != self.site:
            root.patch(SITE, {"data": {**dict.fromkeys(now.site), **self.site}})
        if now.subjects != self.subjects:
            root.patch(BINDING, {"subjects": self.subjects})
        for name in {*now.queues, *self.queues}:
            if now.queues.get(name) != self.queues.get(name):
                if name in now.queues:
                    root.delete(f"{QUEUE}/{name}")
                if name in self.queues:
                    root.create(QUEUE, queue(name, self.queues[name]))


def queue(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Client], Kept]]:
    """Accounts lab with vision below it, and chem; head coordinates lab, yan is a user of chem, oper an operator; and a
    queue that is no account."""
    accounts = [LoginAccount(uid=UIDS[name], gid=UIDS[name], name=name, groups=(USERS,)) for name in NAMES]
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        serving = shared(tmp_path_factory.mktemp("api"), *accounts)
        admin, *others = runner.run(serving.__aenter__())
        runner.run(define(admin, dict(DEFINITIONS[QUEUES])))
        clients = {name: Client(runner, one) for name, one in zip(("root", *NAMES), (admin, *others), strict=True)}
        assert [Machine(clients, patch).sacctmgr("root", f"-i {line}") for line in LINES] == [0] * len(LINES)
        clients["root"].create(QUEUE, queue("prod", {}))
        yield clients, Kept.of(clients["root"])
        runner.run(serving.__aexit__(None, None, None))


@pytest.fixture
def machine(served: tuple[dict[str, Client], Kept], monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    clients, kept = served
    yield Machine(clients, monkeypatch)
    kept.restore(clients["root"])


@pytest.mark.slow
def test_a_coordinator_manages_his_account_and_those_below_it(machine: Machine) -> None:
    for line in (
        "add user yan account=vision fairshare=3",
        "modify user yan where account=vision set fairshare=5 maxjobs=4",
        "modify account vision set maxjobs=7 fairshare=2",
        "add account nlp parent=vision",
        "add user yan account=nlp",
        "delete user yan account=nlp",
        "add account speech parent=lab fairshare=4",
        "modify account nlp set parent=speech",
        "add user yan account=lab,chem",
        "modify user head set fairshare=8",
        "add coordinator account=vision names=yan",
        "delete user yan account=lab",
    ):
        assert machine.sacctmgr("head", f"-i {line}") == 0, line
    here = machine.site
    assert {name: one.parent for name, one in here.accounts.items()} == {
        "chem": "", "lab": "", "nlp": "speech", "speech": "lab", "vision": "lab",
    }  # fmt: skip
    assert [one.account for one in here.users["yan"]] == ["chem", "vision"]
    assert machine.queue("lab")["accounts"] == {"head": 8}
    assert machine.sacctmgr("yan", "-i add user oper account=vision") == 0
    assert machine.sacctmgr("head", "-i delete coordinator account=lab names=head") == 0
    assert DENIED in machine.fails("head", "-i add user oper account=lab", trusted=True)
    assert (machine.queue("nlp")["parent"], machine.queue("speech")["weight"]) == ("speech", 4)


@pytest.mark.slow
def test_who_was_added_submits_there_and_nobody_else(machine: Machine) -> None:
    yan = machine.clients["yan"]
    number = numbers.take(yan, 1, 1)
    with pytest.raises(RequestRefused, match="Invalid account or account/partition combination specified"):
        yan.create(JOBS, job("vision", "yan", number))
    machine.sacctmgr("head", "-i add user yan account=vision")
    assert yan.create(JOBS, job("vision", "yan", number))["metadata"]["name"] == f"slurm-{number}"


@pytest.mark.slow
def test_a_site_of_many_accounts_is_not_too_large_for_the_rules(machine: Machine) -> None:
    here, yan = machine.site, machine.clients["yan"]
    here.accounts |= {f"group{number}": site.Account(coordinators=["someone"]) for number in range(200)}
    here.users |= {f"user{number}": [site.Association(account=f"group{number % 200}")] for number in range(600)}
    site.store(machine.clients["root"], here)
    assert machine.sacctmgr("head", "-i add account nlp parent=vision") == 0
    assert machine.sacctmgr("head", "-i add user yan account=nlp") == 0
    assert DENIED in machine.fails("head", "-i add user yan account=group7", trusted=True)
    number = numbers.take(yan, 1, 1)
    assert yan.create(JOBS, job("nlp", "yan", number))["metadata"]["name"] == f"slurm-{number}"


def test_a_service_account_of_another_users_namespace_is_held_to_accounts_too(machine: Machine) -> None:
    root, group = machine.clients["root"], "rbac.authorization.k8s.io"
    meta, accounts = {"name": "robot"}, "/api/v1/namespaces/user-head/serviceaccounts"
    root.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    root.create(f"/apis/{group}/v1/namespaces/user-yan/rolebindings", {
        "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "user-head"}],
    })  # fmt: skip
    token = root.create(f"{accounts}/robot/token", {"spec": {}})["status"]["token"]
    robot = root.with_token(token)
    with pytest.raises(RequestRefused, match="has not drawn the job number"):
        robot.create(JOBS, job("lab", "head"))
    plain = job("lab", "head")
    del plain["metadata"]["labels"]["slurm.phalanx.dev/number"]
    with pytest.raises(RequestRefused, match=r"names neither its user|Invalid account"):
        robot.create(JOBS, plain)


def test_a_users_change_of_his_own_association_has_no_effect(machine: Machine) -> None:
    before = Kept.of(machine.clients["root"])
    assert machine.fails("yan", "-i modify user yan set fairshare=99") == UNAFFECTED
    assert Kept.of(machine.clients["root"]) == before


@pytest.mark.parametrize(
    ("user", "line", "words"),
    [
        ("head", "add user new account=lab,chem", ADDING.format("users")),
        ("head", "add account mine", ADDING.format("accounts")),
        ("head", "add account mine parent=chem", ADDING.format("accounts")),
        ("head", "modify account vision set parent=chem", UNPRIVILEGED),
        ("head", "modify account vision set parent=root", UNPRIVILEGED),
        ("head", "modify account lab set fairshare=99", UNPRIVILEGED),
        ("head", "modify account lab set maxjobs=9", UNPRIVILEGED),
        ("head", "modify account lab set parent=chem", UNPRIVILEGED),
        ("head", "modify account chem set maxjobs=1", UNPRIVILEGED),
        ("head", "delete account vision", UNPRIVILEGED),
        ("head", "delete account chem", UNPRIVILEGED),
        ("head", "delete user yan", UNPRIVILEGED),
        ("head", "add coordinator account=chem names=head", ADDING.format("coordinator")),
        ("head", "modify user yan set adminlevel=administrator", UNPRIVILEGED),
        ("head", "add qos mine priority=9", ADDING.format("QOS")),
        ("head", "modify qos normal set priority=9", UNPRIVILEGED),
        ("yan", "add user yan account=lab", ADDING.format("users")),
        ("yan", "add account mine parent=chem", ADDING.format("accounts")),
        ("yan", "add coordinator account=chem names=yan", ADDING.format("coordinator")),
        ("yan", "delete coordinator account=lab names=head", UNPRIVILEGED),
        ("yan", "modify user oper set adminlevel=none", UNPRIVILEGED),
    ],
)
def test_all_else_is_refused_in_slurms_words_by_the_command_and_by_the_api_server(
    machine: Machine, user: str, line: str, words: str
) -> None:
    root = machine.clients["root"]
    before = Kept.of(root)
    assert machine.fails(user, f"-i {line}") == words
    assert machine.fails(user, f"-i {line}", trusted=True).startswith(words)
    assert Kept.of(root) == before


@pytest.mark.parametrize(
    ("user", "line", "words"),
    [
        ("yan", "modify user yan set adminlevel=operator", "You can only change your own default account, default"),
        ("oper", "modify user yan set adminlevel=operator", "You must be a super user to modify a users admin level"),
        ("head", "add user yan account=lab defaultaccount=lab", "(head/60001) is not AdminLevel >= Operator, you can"),
        ("root", "modify account vision set parent=nope", " Parent Account nope doesn't exist."),
    ],
)
def test_some_refusals_have_words_of_their_own(machine: Machine, user: str, line: str, words: str) -> None:
    assert words in machine.fails(user, f"-i {line}")


def patched(change: dict[str, Any]) -> Any:
    return SITE, {"data": change}


def test_who_is_coordinator_no_more_can_write_nothing(machine: Machine) -> None:
    machine.sacctmgr("root", "-i delete coordinator account=lab names=head")
    head, change = machine.clients["head"], {"members.vision": "yan"}
    with pytest.raises(RequestRefused, match='User "head" cannot patch'):
        head.patch(*patched(change))
    machine.clients["root"].patch(BINDING, {"subjects": [NAMED]})
    with pytest.raises(RequestRefused, match="you do not coordinate"):
        head.patch(*patched(change))


def test_an_operator_names_coordinators_and_is_held_to_no_account(machine: Machine) -> None:
    assert machine.sacctmgr("oper", "-i add coordinator account=chem names=yan") == 0
    assert machine.sacctmgr("yan", "-i modify user yan set fairshare=9") == 0
    assert machine.sacctmgr("oper", "-i modify account lab set maxjobs=3") == 0
    assert machine.queue("chem")["accounts"]["yan"] == 9
    assert machine.fails("oper", "-i modify user yan set adminlevel=operator", trusted=True).startswith(UNPRIVILEGED)


def test_who_has_a_level_and_no_account_any_more_is_a_user_who_can_be_deleted(machine: Machine) -> None:
    assert machine.sacctmgr("root", "-i delete account name=chem") == 0
    assert "oper" in machine.site.admins
    assert machine.sacctmgr("root", "-i delete user name=oper") == 0
    assert "oper" not in machine.site.admins
    with pytest.raises(RequestRefused, match="cannot patch"):
        machine.clients["oper"].patch(*patched({"account.lab": "{}"}))
    assert machine.sacctmgr("root", "-i delete user name=oper") == 1


def job(account: str, user: str, number: int = 1) -> dict[str, Any]:
    """What sbatch makes, as far as rules of admission look at it."""
    labels = {"slurm.phalanx.dev/number": str(number), "phalanx.dev/queue": account, "phalanx.dev/group": user}
    meta = {"name": f"slurm-{number}", "labels": labels}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "host"}]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


# --- the keys ---------------------------------------------------------------------------------------------------------

TREE = site.Site(
    accounts={"lab": site.Account(coordinators=["head", "ann"]), "vision": site.Account(parent="lab", shares=3)},
    users={"ann": [site.Association(account="vision", limits={"maxjobs": "2"}), site.Association(account="lab")],
           "bob": [site.Association(account="lab")], "root": [site.Association(account="root")]},
    admins={"bob": "Operator"},
)  # fmt: skip


def test_a_site_is_read_from_the_keys_that_say_it() -> None:
    said = site.keys(TREE)
    assert {key: text for key, text in said.items() if not key.startswith(("account.", "users.", "site"))} == {
        "path.lab": "lab", "path.vision": "lab/vision", "coordinators.lab": "head,ann",
        "members.lab": "ann,bob", "members.vision": "ann", "members.root": "root",
    }  # fmt: skip
    again = site.parse(said)
    assert site.keys(again) == said
    assert [one.account for one in again.users["ann"]] == ["vision", "lab"]
    assert (again.accounts, again.admins) == (TREE.accounts, TREE.admins)


def test_a_site_of_one_key_is_read_too() -> None:
    whole = {"site": msgspec.json.encode(msgspec.structs.replace(TREE, read={})).decode()}
    assert site.keys(site.parse(whole)) == site.keys(TREE)


def test_another_account_of_a_user_changes_no_key_but_its_own() -> None:
    before = site.keys(TREE)
    here = site.parse(before)
    here.accounts["a"] = site.Account()
    before = site.keys(here)
    here.users["ann"].append(site.Association(account="a"))
    changed = {key for key, text in site.keys(here).items() if before.get(key) != text}
    assert changed == {"users.a", "members.a"}
    assert [one.account for one in site.parse(site.keys(here)).users["ann"]] == ["vision", "lab", "a"]


def test_a_slurm_conf_changes_what_it_says_and_keeps_what_sacctmgr_wrote(machine: Machine) -> None:
    assert machine.sacctmgr("root", "-i add user yan wckey=blue") == 0
    before = machine.site
    found, _ = read_conf("ClusterName=other\nPartitionName=wide Nodes=n1 MaxTime=60\n")
    assert apply(machine.clients["root"], found, "phalanx:1") == []
    after = machine.site
    assert (after.cluster, [one.name for one in after.partitions], after.tools) == ("other", ["wide"], "phalanx:1")
    assert (after.users, after.accounts, after.wckeys) == (before.users, before.accounts, {"yan": ["blue"]})
    assert after.admins == {"oper": "Operator"}


def test_changes_of_different_accounts_are_both_carried_out(machine: Machine) -> None:
    root = machine.clients["root"]
    one, other = site.load(root), site.load(root)
    one.accounts["lab"].description, other.accounts["chem"].description = "one", "other"
    site.store(root, one)
    site.store(root, other)
    assert [machine.site.accounts[name].description for name in ("lab", "chem")] == ["one", "other"]
    other.accounts["lab"].description = "late"
    with pytest.raises(Exception, match=r"another writer has just changed account\.chem"):
        site.store(root, other)
