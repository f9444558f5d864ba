"""`kinds/nodes/fields.py`: the types of the fields that determine where a pod may run."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.schema.schema import definitions
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.nodes import fields

KINDS = {
    checks.LabelSelectorFields: "apimachinery.pkg.apis.meta.v1.LabelSelector",
    checks.RequirementFields: "api.core.v1.NodeSelectorRequirement",
    fields.AffinityFields: "api.core.v1.Affinity",
    fields.GateFields: "api.core.v1.PodSchedulingGate",
    fields.NodeAffinityFields: "api.core.v1.NodeAffinity",
    fields.NodeSelectorFields: "api.core.v1.NodeSelector",
    fields.NodeTermFields: "api.core.v1.NodeSelectorTerm",
    fields.PodAffinityFields: "api.core.v1.PodAffinity",
    fields.PodTermFields: "api.core.v1.PodAffinityTerm",
    fields.SpreadFields: "api.core.v1.TopologySpreadConstraint",
    fields.TaintFields: "api.core.v1.Taint",
    fields.TolerationFields: "api.core.v1.Toleration",
    fields.WeightedNodeTerm: "api.core.v1.PreferredSchedulingTerm",
    fields.WeightedPodTerm: "api.core.v1.WeightedPodAffinityTerm",
}


@pytest.mark.parametrize("view", KINDS)
def test_the_schema_has_every_field(view: type) -> None:
    assert view.__annotations__.keys() <= definitions()[f"io.k8s.{KINDS[view]}"]["properties"].keys()
