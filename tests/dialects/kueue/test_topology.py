"""Where Kueue's users say how close the pods of a pod set are to be, ours are as close."""

from __future__ import annotations

import pytest

from phalanx.dialects.kueue.answers.topology import topology_request
from phalanx.dialects.kueue.gangs import options_of
from phalanx.kube.gang.spec.gang_spec import GangDefaults, gang_spec
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.model.job import Job
from phalanx.model.node import SliceLayer, TopologyRequest
from phalanx.model.reason import ReasonCode
from tests.kube.double import job

PREFIX = "kueue.x-k8s.io/"
LAYERS = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'


def read(**annotations: str) -> Job:
    obj = job("j", 4)
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    obj["metadata"]["labels"] = {f"{PREFIX}queue-name": "l"}
    said = {f"{PREFIX}podset-{key.replace('_', '-')}": text for key, text in annotations.items()}
    obj["spec"]["template"]["metadata"] = {"annotations": said}
    around = AdmissionDefaults(words=lambda kind, meta, scheduler: options_of(kind, meta))
    members = GangMembers(id="default/j", jobs=[read_job(obj, around)], pods=[])
    return gang_spec(members, GangDefaults(largest=lambda: {"cpu": 4000})).job


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({}, None),
        ({"unconstrained_topology": "true"}, None),
        ({"required_topology": "rack"}, TopologyRequest(level="rack", required=True)),
        ({"preferred_topology": "rack"}, TopologyRequest(level="rack", required=False)),
        (
            {"required_topology": "block", "slice_required_topology": "rack", "slice_size": "2"},
            TopologyRequest(level="block", required=True, slices=(SliceLayer(2, "rack"),)),
        ),
        (
            {"preferred_topology": "block", "slice_required_topology_constraints": LAYERS},
            TopologyRequest(level="block", required=False, slices=(SliceLayer(4, "rack"), SliceLayer(2, "host"))),
        ),
        (
            {"unconstrained_topology": "true", "slice_required_topology": "rack", "slice_size": "2"},
            TopologyRequest(slices=(SliceLayer(2, "rack"),)),
        ),
    ],
    ids=str,
)
def test_its_words_are_ours(said: dict[str, str], asked: TopologyRequest | None) -> None:
    found = read(**said)
    assert (found.blocked, found.roles[0].closeness, found.closeness) == (None, asked, None)


LONG = "x" * 64


@pytest.mark.parametrize(
    "said",
    [
        {"required-topology": LONG},
        {"preferred-topology": LONG},
        {"slice-required-topology": LONG},
        {"group-name": "x" * 257},
        {"slice-size": "9" * 5000},
        {"slice-size": str(2**31)},
        {"slice-required-topology-constraints": f'[{{"topology": "{LONG}", "size": 2}}]'},
        {"slice-required-topology-constraints": '[{"topology": "rack", "size": 0}]'},
        {"slice-required-topology-constraints": f'[{{"topology": "rack", "size": {2**31}}}]'},
        {"slice-required-topology-constraints": "[" + ", ".join(['{"topology": "rack", "size": 2}'] * 4) + "]"},
    ],
    ids=lambda said: str(said)[:60],
)
def test_a_workload_asks_for_nothing_that_its_definition_refuses(said: dict[str, str]) -> None:
    """Otherwise the Workload could not be written, and no user would see why its job waits."""
    annotations = {f"{PREFIX}podset-{key}": text for key, text in said.items()}
    assert topology_request({"metadata": {"annotations": annotations}}, True) == {}


@pytest.mark.parametrize(
    "said",
    [
        {"slice_size": "2"},
        {"slice_required_topology": "rack"},
        {"slice_required_topology": "rack", "slice_size": "two"},
        {"slice_required_topology": "rack", "slice_size": "0"},
        {"slice_required_topology_constraints": "nonsense"},
        {"slice_required_topology_constraints": "[]"},
        {"slice_required_topology_constraints": "[1]"},
        {"slice_required_topology_constraints": '[{"topology": "rack"}]'},
        {"slice_required_topology_constraints": '[{"topology": "rack", "size": "2"}]'},
        {"slice_required_topology_constraints": '[{"topology": "rack", "size": 1e999}]'},
        {"slice_required_topology_constraints": '[{"topology": "", "size": 2}]'},
        {"slice_required_topology_constraints": "[" * 10_000},
        {"required_topology": "rack", "preferred_topology": "rack"},
    ],
    ids=lambda said: str(said)[:60],
)
def test_a_job_whose_slices_cannot_be_read_waits_and_says_so(said: dict[str, str]) -> None:
    """Kueue's webhook refuses it."""
    blocked = read(**said).blocked
    assert blocked is not None
    assert blocked.code is ReasonCode.INVALID
    assert "j sets phalanx.dev/role-" in blocked.text
