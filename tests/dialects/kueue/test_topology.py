"""Where Kueue's users say how close the pods of a pod set are to be, ours are as close."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kueue.gangs import words
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangMembers, gang_spec
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.model.node import TopologyRequest
from tests.kube.double import job

PREFIX = "kueue.x-k8s.io/"


def closeness(**annotations: str) -> tuple[Any, Any]:
    """Of the role, and of the whole job."""
    obj = job("j", 4)
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    obj["metadata"]["labels"] = {f"{PREFIX}queue-name": "l"}
    said = {f"{PREFIX}podset-{key.replace('_', '-')}": text for key, text in annotations.items()}
    obj["spec"]["template"]["metadata"] = {"annotations": said}
    around = AdmissionDefaults(words=lambda kind, meta, scheduler: words(kind, meta))
    members = GangMembers(id="default/j", jobs=[read_job(obj, around)], pods=[])
    found = gang_spec(members, GangDefaults(largest={"cpu": 4000})).job
    assert found.blocked is None
    return found.roles[0].closeness, found.closeness


@pytest.mark.parametrize(
    ("said", "role", "whole"),
    [
        ({}, None, None),
        ({"unconstrained_topology": "true"}, None, None),
        ({"required_topology": "rack"}, TopologyRequest(level="rack", required=True), None),
        ({"preferred_topology": "rack"}, TopologyRequest(level="rack", required=False), None),
        (
            {"required_topology": "block", "slice_required_topology": "rack", "slice_size": "2"},
            TopologyRequest(level="block", required=True),
            TopologyRequest(level="", required=True, slice_level="rack", slice_pods=2),
        ),
        ({"slice_size": "2"}, None, None),
    ],
    ids=str,
)
def test_its_words_are_ours(said: dict[str, str], role: TopologyRequest | None, whole: TopologyRequest | None) -> None:
    assert closeness(**said) == (role, whole)
