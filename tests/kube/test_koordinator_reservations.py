"""Koordinator's Reservations: capacity of a node that is reserved for owners which may not exist yet."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.client.kind import NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.kube.install.definitions import RESERVATIONS
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_koordinator import ON, group, pod, reason
from tests.kube.trouble import Trouble
from tests.seeds import mostly_slow

LABEL = "pod-group.scheduling.sigs.k8s.io"
WANTS = f"{kinds.SCHEDULING}/reservation-affinity"
OWNERS: list[Object] = [{"labelSelector": {"matchLabels": {"app": "a"}}}]


def template(cpu: int, **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}], **spec}}


def reserve(stage: Stage, name: str, cpu: int, *, on: str = "", **spec: Any) -> None:
    meta = {"name": name, "creationTimestamp": write_moment(stage.now_s), "labels": {"tier": name}}
    said = {"template": template(cpu, **({"nodeName": on} if on else {})), "owners": OWNERS, **spec}
    stage.api.put(kinds.RESERVATIONS, {"metadata": meta, "spec": said})


def owner(name: str, cpu: str = "1", *, labels: Object | None = None, notes: Object | None = None) -> Object:
    return pod(name, cpu, labels={"app": "a", **(labels or {})}, notes=notes)


def status(stage: Stage, name: str) -> Object:
    return dict(stage.api.objects[kinds.RESERVATIONS][name].get("status") or {})


def phase(stage: Stage, name: str) -> str:
    return str(status(stage, name).get("phase"))


def users(stage: Stage, name: str) -> list[str]:
    return sorted(str(one["name"]) for one in status(stage, name).get("currentOwners") or ())


def test_kept_room_is_for_its_one_owner_and_then_no_more() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        reserve(stage, "kept", 5)
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "kept") == "Available")
            said = status(stage, "kept")
            assert (said["nodeName"], said["allocatable"]) == ("n1", {"cpu": "5"})
            assert {one["type"]: one["status"] for one in said["conditions"]} == {"Scheduled": "True", "Ready": "True"}
            stranger = pod("stranger", "4")
            stranger["spec"]["tolerations"] = [{"operator": "Exists"}]  # that is no right to the room of others
            stage.put(stranger, pod("small", "3"))
            await stage.until(lambda: set(stage.api.bound()) == {"small"})
            stage.put(owner("mine", "4"))
            await stage.until(lambda: phase(stage, "kept") == "Succeeded")
            assert stage.api.bound()["mine"] == "n1"
            notes = stage.api.objects[PODS]["default/mine"]["metadata"]["annotations"]
            assert json.loads(notes[f"{kinds.SCHEDULING}/reservation-allocated"])["name"] == "kept"
            assert users(stage, "kept") == ["mine"]
            assert status(stage, "kept")["allocated"] == {"cpu": "4"}
            await settle(stage)
            assert "stranger" not in stage.api.bound()  # the node has 1 left
            stage.finish("mine")
            await stage.until(lambda: "stranger" in stage.api.bound())

    play(scene())


def test_room_that_owners_leave_is_kept_for_the_next() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        reserve(stage, "kept", 4, allocateOnce=False)
        stage.put(pod("other", "4"))
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "kept") == "Available" and "other" in stage.api.bound())
            stage.put(owner("o0", "2"), owner("o1", "2"), owner("o2", "2"))
            await stage.until(lambda: users(stage, "kept") == ["o0", "o1"])
            assert (phase(stage, "kept"), status(stage, "kept")["allocated"]) == ("Available", {"cpu": "4"})
            stage.finish("o0")
            stage.put(pod("stranger", "1"))
            await stage.until(lambda: "o2" in stage.api.bound())
            await settle(stage)
            assert "stranger" not in stage.api.bound()

    play(scene())


@pytest.mark.parametrize("said", [{}, {"allocateOnce": False}, {"unschedulable": True}], ids=["once", "many", "closed"])
def test_who_fits_no_node_while_room_is_kept_is_told_so(said: Object) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        reserve(stage, "kept", 5, **said)
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "kept") == "Available")
            group(stage, "g", 2)
            stage.put(pod("wide", "6"), pod("p0", "4", labels={LABEL: "g"}), pod("p1", "4", labels={LABEL: "g"}))
            stage.put(owner("wider", "7"), pod("huge", "9"))
            reserve(stage, "next", 4)
            gangs = ("pod:wide", f"{kinds.SIGS}:g", "pod:wider")
            await stage.until(lambda: all(reason(stage, gang).startswith("RoomKept") for gang in gangs))
            assert "the largest node has 3; kept is n1/kept." in reason(stage, "pod:wide")
            await stage.until(lambda: reason(stage, "pod:huge").startswith("NeverFits"))
            await stage.until(lambda: "conditions" in status(stage, "next"))
            assert status(stage, "next")["conditions"][0]["message"].startswith("RoomKept: ")
            stage.api.drop(kinds.RESERVATIONS, "next")
            stage.api.drop(kinds.RESERVATIONS, "kept")
            await stage.until(lambda: "wider" in stage.api.bound() or "wide" in stage.api.bound())

    play(scene())


def test_a_gang_is_placed_partly_in_kept_room_or_not_at_all() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4), node("n2", 4)], dialects=ON)
        reserve(stage, "r1", 4)
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "r1") == "Available")
            stage.put(double.pod("other", "4"))
            await stage.until(lambda: "other" in stage.api.bound())
            group(stage, "g", 2)
            stage.put(owner("p0", "4", labels={LABEL: "g"}), owner("p1", "4", labels={LABEL: "g"}))
            await settle(stage)
            assert set(stage.api.bound()) == {"other"}
            assert phase(stage, "r1") == "Available"
            stage.finish("other")
            await stage.until(lambda: {"p0", "p1"} <= set(stage.api.bound()))
            assert {stage.api.bound()["p0"], stage.api.bound()["p1"]} == {"n1", "n2"}
            await stage.until(lambda: phase(stage, "r1") == "Succeeded")

    play(scene())


def test_owners_rather_use_kept_room_and_some_use_no_other() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8), node("n2", 8)], dialects=ON)
        reserve(stage, "a", 2, on="n2", allocateOnce=False)
        reserve(stage, "b", 2, on="n1", unschedulable=True)
        stage.put(pod("full", "5"))
        async with stage.scheduler():
            await stage.until(lambda: {phase(stage, "a"), phase(stage, "b")} == {"Available"})
            assert status(stage, "a")["nodeName"] == "n2"
            stage.put(owner("any"))
            await stage.until(lambda: users(stage, "a") == ["any"])
            stage.put(owner("tied", "2", notes={WANTS: json.dumps({"reservationSelector": {"tier": "a"}})}))
            stage.put(owner("none", notes={WANTS: json.dumps({"name": "b"})}))
            await stage.until(lambda: bool(reason(stage, "pod:tied")))
            assert "tied" not in stage.api.bound()
            stage.finish("any")
            await stage.until(lambda: users(stage, "a") == ["tied"])
            assert "none" not in stage.api.bound()

    play(scene())


def test_a_node_in_maintenance_is_so_with_all_that_is_kept_there() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        reserve(stage, "kept", 4)
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "kept") == "Available")
            moments = {"start": write_moment(stage.now_s - 10), "end": write_moment(stage.now_s + 1e6)}
            stage.api.put(RESERVATIONS, {"metadata": {"name": "m"}, "spec": {**moments, "nodes": ["n1"]}})
            await settle(stage)
            stage.put(owner("mine"))
            await settle(stage)
            assert not stage.api.bound()
            stage.api.drop(RESERVATIONS, "m")
            await stage.until(lambda: phase(stage, "kept") == "Succeeded")

    play(scene())


def test_a_restart_finds_who_is_in_kept_room() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)], dialects=ON)
        stage.put(owner("tied", notes={WANTS: json.dumps({"name": "none"})}))
        async with stage.scheduler():
            await settle(stage)
            assert not stage.api.bound()  # there is no Reservation at all
        reserve(stage, "kept", 4, allocateOnce=False)
        async with stage.scheduler():
            await stage.until(lambda: phase(stage, "kept") == "Available")
            stage.put(owner("o0", "2"))
            await stage.until(lambda: users(stage, "kept") == ["o0"])
        async with stage.scheduler():
            stage.put(pod("stranger", "4"), owner("o1", "2"), pod("late", "1"))
            await stage.until(lambda: users(stage, "kept") == ["o0", "o1"] and "stranger" in stage.api.bound())
            await settle(stage)
            assert "late" not in stage.api.bound()

    play(scene())


def test_one_that_expires_or_loses_its_node_has_failed() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4), node("n2", 4)], dialects=ON)
        reserve(stage, "short", 4, on="n1", ttl="60s")
        reserve(stage, "lost", 4, on="n2", ttl="0s")
        reserve(stage, "large", 9)
        async with stage.scheduler():
            await stage.until(lambda: {phase(stage, "short"), phase(stage, "lost")} == {"Available"})
            await stage.until(lambda: "conditions" in status(stage, "large"))
            (said,) = status(stage, "large")["conditions"]
            assert (said["type"], said["status"], said["reason"]) == ("Scheduled", "False", "Unschedulable")
            assert "9" in said["message"]
            stage.api.drop(NODES, "n2")
            stage.put(pod("stranger", "4"))
            await stage.until(lambda: phase(stage, "lost") == "Failed")
            assert "stranger" not in stage.api.bound()
            stage.now_s += 61
            reserve(stage, "news", 9)  # time alone brings no turn here
            await stage.until(lambda: phase(stage, "short") == "Failed")
            assert status(stage, "short")["conditions"][-1]["reason"] == "Expired"
            await stage.until(lambda: "stranger" in stage.api.bound())

    play(scene())


def beyond(stage: Stage) -> list[str]:
    """Return the overcommitted nodes: the requests of their pods, and reserved amounts that owners do not use."""
    left = dict.fromkeys(("n1", "n2"), 6)
    keeping = [
        one
        for one in stage.api.objects[kinds.RESERVATIONS].values()
        if (one.get("status") or {}).get("phase") == "Available"
    ]
    unused = {str(one["metadata"]["uid"]): int(one["status"]["allocatable"]["cpu"]) for one in keeping}
    for one in stage.api.pods():
        asks, where = int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]), one["spec"].get("nodeName")
        if where is None or one["status"]["phase"] != "Pending":
            continue
        left[where] -= asks
        said = json.loads(one["metadata"]["annotations"].get(f"{kinds.SCHEDULING}/reservation-allocated", "{}"))
        if (uid := said.get("uid", "")) in unused:
            unused[uid] -= asks
    for one in keeping:
        left[one["status"]["nodeName"]] -= max(0, unused[str(one["metadata"]["uid"])])
    return [name for name, amount in left.items() if amount < 0]


@pytest.mark.parametrize("seed", mostly_slow(range(12), fast=1))
def test_whatever_goes_wrong_kept_room_is_given_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(seed)
    dice = trouble.dice
    stage = Stage(nodes=[node("n1", 6), node("n2", 6)], seed=seed, dialects=ON)

    def happen(number: int) -> None:
        if not trouble.calm and dice.random() < 0.3:
            cpu = dice.choice(["1", "2", "3"])
            stage.put(owner(f"o{number}", cpu) if dice.random() < 0.6 else pod(f"s{number}", cpu))
        if stage.api.objects[kinds.RESERVATIONS] and dice.random() < (0.5 if trouble.calm else 0.05):
            stage.api.drop(kinds.RESERVATIONS, dice.choice(sorted(stage.api.objects[kinds.RESERVATIONS])))
        if not trouble.calm and dice.random() < 0.15:
            reserve(
                stage, f"r{number % 3}{number}", dice.choice([2, 3, 4]), allocateOnce=dice.random() < 0.5, ttl="50s"
            )

    monkeypatch.setattr("phalanx.kube.write.writer._BACKOFF_S", (0.0,))
    play(trouble.plays(stage, happen, lambda: beyond(stage)))
    assert {one["status"]["phase"] for one in stage.api.pods()} == {"Succeeded"}
