"""Which pods may use a Reservation, and how long it lasts."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Object, PartUse
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.reservation import (
    ReservationSpec,
    part_use,
    read_reservation,
    stand_in,
)


def pod(name: str = "p", *, notes: dict[str, Any] | None = None, cpu: str = "1", **labels: str) -> Object:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "u-rs", "controller": True, "apiVersion": "apps/v1"}
    said = {key: json.dumps(value) for key, value in (notes or {}).items()}
    spec = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    return {"metadata": {**meta, "ownerReferences": [owner], "annotations": said}, "spec": spec}


@pytest.mark.parametrize(
    ("entry", "is_owner"),
    [
        ({}, True),
        ({"object": {"name": "p", "namespace": "ns", "kind": "Anything"}}, True),
        ({"object": {"name": "p", "namespace": "elsewhere"}}, False),
        ({"object": {"uid": "uid-p"}}, True),
        ({"controller": {"kind": "ReplicaSet", "name": "rs", "controller": True}}, True),
        ({"controller": {"kind": "ReplicaSet", "name": "rs", "namespace": "elsewhere"}}, False),
        ({"controller": {"kind": "StatefulSet", "name": "rs"}}, False),
        ({"labelSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}}, False),
        ({"object": {"name": "p"}, "labelSelector": {"matchLabels": {"app": "b"}}}, False),
    ],
)
def test_whose_room_it_is(entry: Object, is_owner: bool) -> None:
    kept = ReservationSpec(name="r", uid="u", owners=({"object": {"name": "nobody"}}, entry))
    assert part_use(pod(app="a"), [kept]) == (PartUse(names=("r.u",)) if is_owner else None)


def chosen(wants: Object, **notes: Object) -> PartUse | None:
    hard = {"key": "team", "value": "x", "effect": "NoSchedule"}
    kept = [
        ReservationSpec(name="a", uid="a", owners=({},), labels={"size": "4"}, holds={"cpu": 1000}),
        ReservationSpec(name="b", uid="b", owners=({},), labels={"size": "8"}, holds={"cpu": 2000}),
        ReservationSpec(name="tainted", uid="t", owners=({},), taints=(hard,), holds={"cpu": 1000}),
    ]
    return part_use(pod(notes={kinds.AFFINITY: wants, **notes}), kept)


def test_a_pod_chooses_among_its_reservations() -> None:
    def required(*expressions: Object) -> Object:
        terms = [{"matchExpressions": [one]} for one in expressions]
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms}}

    assert chosen({}) == PartUse(names=("a.a", "b.b"))
    assert chosen({"name": "tainted"}) == PartUse(names=("tainted.t",), required=True)  # nothing else of it is read
    assert chosen({"reservationSelector": {"size": "8"}}) == PartUse(names=("b.b",), required=True)
    assert chosen(required({"key": "size", "operator": "Gt", "values": ["5"]})) == PartUse(
        names=("b.b",), required=True
    )
    assert chosen(required({"key": "size", "operator": "Lt", "values": ["odd"]})) == PartUse(names=(), required=True)
    either = required({"key": "size", "operator": "In", "values": ["4"]}, {"key": "size", "operator": "Exists"})
    assert chosen(either) == PartUse(names=("a.a", "b.b"), required=True)
    tolerant = {"tolerations": [{"key": "team", "operator": "Equal", "value": "x"}]}
    assert chosen(tolerant) == PartUse(names=("a.a", "b.b", "tainted.t"))
    assert chosen({}, **{kinds.EXACT: {"resourceNames": ["cpu"]}}) == PartUse(names=("a.a",))
    assert part_use(pod(notes={kinds.AFFINITY: [1]}), []) is None


@pytest.mark.parametrize(
    ("spec", "expires_s"),
    [
        ({}, 86_400.0),
        ({"ttl": "1h30m"}, 5_400.0),
        ({"ttl": "0s", "expires": "1970-01-01T00:01:00Z"}, inf),
        ({"ttl": "1h", "expires": "1970-01-01T00:01:00Z"}, 60.0),
        ({"ttl": "soon"}, inf),
    ],
)
def test_when_it_expires(spec: Object, expires_s: float) -> None:
    meta = {"name": "r", "uid": "u", "creationTimestamp": "1970-01-01T00:00:00Z"}
    assert read_reservation({"metadata": meta, "spec": spec}).expires_s == expires_s


def test_a_template_of_another_form_says_nothing() -> None:
    obj = {"metadata": {"name": "r", "uid": "u"}, "spec": {"template": 5}}
    read = read_reservation(obj)
    assert (read.holds, stand_in(obj, read).asks) == ({"pods": 1}, (("pods", 1),))
