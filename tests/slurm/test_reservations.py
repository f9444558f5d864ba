"""Slurm's reservations: the users that may use a reservation, and how scontrol creates, changes and deletes it."""

from __future__ import annotations

import pytest

from phalanx.slurm.cluster.site import Account, Partition, Site
from phalanx.slurm.control import reservations
from phalanx.slurm.control.reservations import ReservationInfo, create, delete, object_name, page, update
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.options import Usage
from tests.slurm.fake_api import FakeApi

SITE = Site(
    accounts={"lab": Account(), "chem": Account()},
    partitions=[Partition(name="wide", nodes=["n1", "n2"], default=True)],
)
WHEN = {"starttime": "2099-01-01T00:00:00", "duration": "60"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    machines = [
        NodeInfo(name=f"n{at}", cpus=4 * at, memory_mib=1000, gpus=0, ready=True, drained=False) for at in (1, 2, 3)
    ]
    monkeypatch.setattr(reservations, "nodes", lambda api: machines)

    class Listed(FakeApi):
        def get(self, path: str, **query: str) -> dict[str, object]:
            return {"items": [obj for name, obj in self.objects.items() if name.startswith(path)]}

    return Listed()


@pytest.mark.parametrize(
    ("users", "accounts", "allowed"),
    [
        (["ada"], [], True),
        (["bob"], [], False),
        (["-bob"], [], True),
        (["-ada"], [], False),
        ([], ["lab"], True),
        ([], ["-lab"], False),
        (["bob"], ["lab"], True),
        ([], [], False),
    ],
)
def test_who_may_use_a_reservation(users: list[str], accounts: list[str], *, allowed: bool) -> None:
    made = ReservationInfo(name="r", start_s=0.0, end_s=1.0, nodes=[], users=users, accounts=accounts)
    assert made.allows("ada", "lab") is allowed


def test_a_reservation_is_created_with_a_name_of_its_own(api: FakeApi) -> None:
    assert [create(api, SITE, {**WHEN, "accounts": "lab", "nodes": "n[1-2]"}) for _ in range(2)] == ["lab_1", "lab_2"]
    first, _ = reservations.reservations(api)
    assert (first.nodes, first.cores, first.flags) == (["n1", "n2"], 12, ["SPEC_NODES"])
    assert first.end_s - first.start_s == 3600
    made = api.objects[f"{reservations.PATH}/{object_name('lab_1')}"]
    assert object_name("lab_1") == "lab-1"
    assert (made["spec"]["queues"], made["spec"]["groups"]) == (["lab"], [])
    lines = [" ".join(line) for line in page(first)]
    assert lines[1].startswith(
        "Nodes=n[1-2] NodeCnt=2 CoreCnt=12 Features=(null) PartitionName=(null) Flags=SPEC_NODES"
    )
    assert "Accounts=lab" in lines[3]
    assert "State=INACTIVE" in lines[3]


def test_nodes_are_those_of_the_partition(api: FakeApi) -> None:
    create(api, SITE, {**WHEN, "accounts": "lab", "nodes": "ALL", "partition": "wide", "reservation": "r"})
    [made] = reservations.reservations(api)
    assert (made.nodes, made.flags) == (["n1", "n2"], ["SPEC_NODES", "ALL_NODES"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"starttime": "noon-ish"}, "Invalid time specification"),
        ({"duration": "x"}, "Invalid duration duration=x"),
        ({"nodes": "n9"}, "Invalid node name specified"),
        ({"nodes": "", "nodecnt": "4"}, "Node count specification invalid"),
        ({"nodes": "", "nodecnt": "3", "partition": "wide"}, "Requested nodes are busy"),
        ({"nodes": "", "nodecnt": "x"}, "Invalid node count x"),
        ({"nodes": ""}, "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified"),
        ({"accounts": "nobody"}, "Invalid account or account/partition combination"),
        ({"users": "no such user"}, "Invalid user id"),
        ({"flags": "DAYLY"}, "Error parsing flags DAYLY"),
        ({"flags": "DAILY"}, "the flag DAILY is not supported by Phalanx"),
        ({"burstbuffer": "x"}, "burstbuffer is not supported by Phalanx"),
    ],
)
def test_what_cannot_be_reserved(api: FakeApi, change: dict[str, str], why: str) -> None:
    with pytest.raises(Usage) as raised:
        create(api, SITE, {**WHEN, "accounts": "lab", "nodes": "n1", **change})
    assert why in raised.value.text
    assert not api.objects


@pytest.mark.parametrize(
    ("missing", "why"),
    [("starttime", "A start time must be given"), ("accounts", "Users/Groups and/or Accounts"),
     ("duration", "needs a duration or an endtime")],
)  # fmt: skip
def test_what_a_reservation_needs(api: FakeApi, missing: str, why: str) -> None:
    said = {**WHEN, "accounts": "lab", "nodes": "n1"}
    del said[missing]
    with pytest.raises(Usage) as raised:
        create(api, SITE, said)
    assert why in raised.value.text


def test_a_name_is_taken_once(api: FakeApi) -> None:
    said = {**WHEN, "accounts": "lab", "nodes": "n1", "reservation": "r"}
    create(api, SITE, said)
    with pytest.raises(Usage, match="Reservation already exists"):
        create(api, SITE, said)


def test_a_change_keeps_what_it_does_not_name(api: FakeApi) -> None:
    create(api, SITE, {**WHEN, "accounts": "lab", "nodes": "n1", "reservation": "r", "flags": "magnetic"})
    update(api, SITE, {"reservation": "r", "duration": "120"})
    [made] = reservations.reservations(api)
    assert (made.end_s - made.start_s, made.nodes, made.accounts) == (7200, ["n1"], ["lab"])
    assert api.objects[f"{reservations.PATH}/r"]["spec"]["magnetic"] is True
    with pytest.raises(Usage, match="Requested reservation is invalid"):
        update(api, SITE, {"reservation": "other", "duration": "1"})


def test_only_an_existing_reservation_is_deleted(api: FakeApi) -> None:
    create(api, SITE, {**WHEN, "accounts": "lab", "nodes": "n1", "reservation": "r"})
    assert [delete(api, "r"), delete(api, "r")] == [True, False]


def test_reservations_that_scontrol_did_not_make_are_left_out(api: FakeApi) -> None:
    api.objects[f"{reservations.PATH}/other"] = {"metadata": {"name": "other"}, "spec": {}}
    assert reservations.reservations(api) == []
