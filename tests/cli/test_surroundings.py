"""`cli/submission/moving/surroundings.py`: objects that a move copies besides jobs or leaves behind."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from phalanx.cli.submission.moving import surroundings
from phalanx.cli.submission.moving.portable import Copier, MoveTally
from phalanx.cli.submission.moving.surroundings import (
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    NUMBER,
    ROLE_BINDINGS,
    ROLES,
    copy_surroundings,
    missing_claims,
    namespace_owners,
    serves,
)
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import (
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VOLUME_CLAIMS,
)
from phalanx.dialects.kueue.kinds import CLUSTER_QUEUES
from phalanx.embedded.login.grants import GID, UID
from phalanx.kube.install.definitions import QUEUES
from phalanx.slurm.cluster import admission
from tests.cli.two_clusters import Server, ends, made

Object = dict[str, Any]


def cluster_wide(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name}, **fields}


def system(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "kube-system"}, **fields}


def copied(source: Server, target: Server | None = None, *, dry: bool = False) -> tuple[Server, MoveTally]:
    target = target or Server("target", (QUEUES, cluster_wide("served")))
    copier = Copier(target=target, tally=MoveTally(), dry=dry)  # type: ignore[arg-type]  # a double
    asyncio.run(copy_surroundings(ends(source, target), copier))
    return target, copier.tally


def left(tally: MoveTally) -> dict[str, str]:
    return {one.name: one.why for one in tally.left}


def test_objects_of_users_are_copied() -> None:
    source = Server(
        "source",
        (NAMESPACES, cluster_wide("ns")),
        (PRIORITY_CLASSES, cluster_wide("high", value=7)),
        (QUEUES, cluster_wide("vision", spec={"weight": 2})),
        (CONFIG_MAPS, made("settings", data={"a": "b"})),
        (SECRETS, made("password", data={"a": "Yg=="})),
    )
    target, tally = copied(source)
    assert target.names(NAMESPACES) == ["ns"]
    assert target.objects[PRIORITY_CLASSES, "", "high"]["value"] == 7
    assert target.objects[QUEUES, "", "vision"]["spec"] == {"weight": 2}
    assert target.at(CONFIG_MAPS, "settings")["data"] == {"a": "b"}
    assert target.at(SECRETS, "password")["data"] == {"a": "Yg=="}
    assert left(tally) == {}


def test_what_each_cluster_has_itself_is_not_copied() -> None:
    source = Server(
        "source",
        (NAMESPACES, cluster_wide("default")),
        (NAMESPACES, cluster_wide("kube-system")),
        (NAMESPACES, cluster_wide("phalanx-system")),
        (PRIORITY_CLASSES, cluster_wide("system-node-critical", value=1)),
        (CONFIG_MAPS, made("kube-root-ca.crt", data={})),
        (CONFIG_MAPS, system("anything")),
        (SECRETS, made("of-a-job", ("Job", "train"))),
        (SERVICE_ACCOUNTS, made("default")),
        (CLUSTER_ROLES, cluster_wide("cluster-admin")),
        (CLUSTER_ROLES, cluster_wide("system:node")),
        (ROLES, made("of-a-job", ("Job", "train"))),
    )
    target, tally = copied(source)
    assert target.writes == []
    assert left(tally) == {}


def test_tokens_and_workloads_that_would_run_twice_stay_and_the_user_is_told() -> None:
    source = Server(
        "source",
        (SECRETS, made("token", type="kubernetes.io/service-account-token")),
        (CRON_JOBS, made("nightly")),
        (DEPLOYMENTS, made("web")),
        (DEPLOYMENTS, {"metadata": {"name": "own", "namespace": "kube-system"}}),
    )
    target, tally = copied(source)
    assert target.writes == []
    assert left(tally) == {
        "ns/token": "it is a token of this cluster: create one in the target",
        "ns/nightly": "both clusters would run it: apply its manifest to the target, and delete it here",
        "ns/web": "it continues to run here: apply its manifest to the target, and delete it here",
    }


def test_queues_of_a_dialect_need_its_kinds_at_the_target() -> None:
    source = Server("source", (CLUSTER_QUEUES, cluster_wide("team", spec={})))
    target, tally = copied(source)
    assert target.writes == []
    [why] = left(tally).values()
    assert why.startswith(f"the target has no clusterqueues.{CLUSTER_QUEUES.group}: install the component")
    serving = Server("target", (CLUSTER_QUEUES, cluster_wide("other")))
    assert copied(source, serving)[0].names(CLUSTER_QUEUES) == ["other", "team"]


def test_a_group_in_another_version_is_not_served() -> None:
    target = Server("target", (QUEUES, cluster_wide("a")))
    assert asyncio.run(serves(ends(Server("source"), target), QUEUES))
    assert not asyncio.run(serves(ends(Server("source"), target), CLUSTER_QUEUES))
    assert not asyncio.run(serves(ends(Server("source"), Server("target")), QUEUES))


@pytest.mark.parametrize(
    ("spec", "told"), [({"gang": True}, False), ({"gang": True, "weight": 2}, True)], ids=["untouched", "changed"]
)
def test_a_default_queue_that_nobody_changed_gives_way_silently(spec: Object, told: bool) -> None:
    theirs = cluster_wide("default", apiVersion=QUEUES.api_version, kind="Queue", spec={"gang": True, "weight": 9})
    target, tally = copied(
        Server("source", (QUEUES, cluster_wide("default", spec=spec))), Server("target", (QUEUES, theirs))
    )
    assert target.objects[QUEUES, "", "default"]["spec"]["weight"] == 9
    assert bool(left(tally)) is told


def binding(name: str, role: str, kind: str = "Role") -> Object:
    return made(name, roleRef={"kind": kind, "name": role}, subjects=[])


def test_a_binding_moves_with_its_role_and_not_without() -> None:
    source = Server(
        "source",
        (ROLES, made("reader", rules=[])),
        (ROLE_BINDINGS, binding("good", "reader")),
        (ROLE_BINDINGS, binding("bad", "missing")),
        (CLUSTER_BINDINGS, cluster_wide("wide", roleRef={"kind": "ClusterRole", "name": "none"})),
    )
    target, tally = copied(source)
    assert target.names(ROLE_BINDINGS) == ["good"]
    assert left(tally) == {
        "wide": "the target has no ClusterRole none",
        "ns/bad": "the target has no Role missing",
    }
    _, dry = copied(source, dry=True)  # a dry run expects the roles that it would have copied
    assert "ns/good" not in left(dry)


def test_an_account_moves_without_its_tokens() -> None:
    source = Server("source", (SERVICE_ACCOUNTS, made("robot", secrets=[{"name": "token"}])))
    assert "secrets" not in copied(source)[0].at(SERVICE_ACCOUNTS, "robot")


def test_a_dry_run_writes_nothing() -> None:
    source = Server(
        "source",
        (NAMESPACES, cluster_wide("ns")),
        (CONFIG_MAPS, made("settings", data={})),
        (CONFIG_MAPS, system(NUMBER, data={"next": "7"})),
        (CONFIG_MAPS, system(admission.SITE, data={})),
    )
    target, tally = copied(source, dry=True)
    assert target.writes == []
    assert tally.row("ConfigMap").moved == 1
    assert tally.row("Slurm's next number").moved == 1


@pytest.mark.parametrize(
    ("here", "there", "after"),
    [
        ("12", None, "12"),
        ("12", "5", "12"),
        ("5", "12", "12"),
        ("12", "12", "12"),
        ("1", None, None),  # no number was used
        (None, "5", "5"),
        ("12", "", "12"),
    ],
)
def test_no_job_number_is_used_twice(here: str | None, there: str | None, after: str | None) -> None:
    def server(name: str, number: str | None) -> Server:
        kept = [(CONFIG_MAPS, system(NUMBER, data={"next": number} if number else {}))] if number is not None else []
        return Server(name, *kept)

    target, _ = copied(server("source", here), server("target", there))
    found = target.objects.get((CONFIG_MAPS, "kube-system", NUMBER))
    assert (found and found["data"]["next"]) == after


def test_a_number_that_the_target_draws_meanwhile_is_a_conflict() -> None:
    source = Server("source", (CONFIG_MAPS, system(NUMBER, data={"next": "12"})))
    target = Server("target", (CONFIG_MAPS, system(NUMBER, data={"next": "5"})))

    def draw(write: str) -> None:
        target.before = lambda write: None
        target.put(CONFIG_MAPS, system(NUMBER, data={"next": "13"}))

    target.before = draw
    with pytest.raises(ApiRefusal, match="it has changed"):
        copied(source, target)
    assert target.objects[CONFIG_MAPS, "kube-system", NUMBER]["data"] == {"next": "13"}


def namespace(name: str, **notes: str) -> Object:
    words = {{"uid": UID, "gid": GID}[key]: text for key, text in notes.items()}
    return {"metadata": {"name": name, "annotations": words}}


def test_a_namespace_belongs_to_the_unix_user_in_its_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Server(
        "source",
        (NAMESPACES, namespace("ada", uid="1001", gid="2001")),
        (NAMESPACES, namespace("bob", uid="1002")),
        (NAMESPACES, namespace("bad", uid="x", gid="1")),
        (NAMESPACES, namespace("plain")),
    )
    monkeypatch.setattr(os, "getuid", lambda: 0)
    found = asyncio.run(namespace_owners(ends(source, Server("target"))))
    assert found == {"ada": (1001, 2001), "bob": (1002, 1002)}
    monkeypatch.setattr(os, "getuid", lambda: 7)
    monkeypatch.setattr(os, "getgid", lambda: 8)
    assert asyncio.run(namespace_owners(ends(source, Server("target"))))[""] == (7, 8)


def claims(target: Server, *, empty: bool, dry: bool = False) -> tuple[set[str], MoveTally]:
    spec = {"volumeName": "here", "dataSourceRef": {}, "storageClassName": "fast"}
    source = Server("source", (VOLUME_CLAIMS, made("data", spec=spec)), (VOLUME_CLAIMS, system("own", spec=spec)))
    copier = Copier(target=target, tally=MoveTally(), dry=dry)  # type: ignore[arg-type]  # a double
    return asyncio.run(missing_claims(ends(source, target), copier, empty=empty)), copier.tally


def test_a_claim_without_its_data_keeps_its_jobs_here() -> None:
    missing, tally = claims(Server("target"), empty=False)
    assert missing == {"ns/data"}
    assert "or add --empty-claims; then move again" in left(tally)["ns/data"]


def test_empty_claims_are_created_on_request_without_the_volume_of_this_machine() -> None:
    target = Server("target")
    assert claims(target, empty=True)[0] == set()
    assert target.at(VOLUME_CLAIMS, "data")["spec"] == {"storageClassName": "fast"}
    assert claims(Server("target"), empty=True, dry=True)[0] == set()


def test_a_claim_that_the_target_has_is_used() -> None:
    target = Server("target", (VOLUME_CLAIMS, made("data", spec={})))
    for empty in (True, False):
        missing, tally = claims(target, empty=empty)
        assert missing == set()
        assert tally.row(VOLUME_CLAIMS.name).there == 1
    assert target.writes == []


def test_a_claim_that_the_target_refuses_is_missing() -> None:
    target = Server("target")

    def refuse(write: str) -> None:
        raise ApiRefusal(403, "Forbidden", "a quota")

    target.before = refuse
    missing, tally = claims(target, empty=True)
    assert missing == {"ns/data"}
    assert left(tally) == {"ns/data": "the target refuses it: a quota"}


def test_names_of_system_namespaces() -> None:
    assert all(map(surroundings.is_system, ("kube-system", "phalanx-system", "kueue-system", "volcano-system")))
    assert not any(map(surroundings.is_system, ("default", "phalanx", "my-kube-system")))
