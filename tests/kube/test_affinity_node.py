"""`kube/read/template/affinity.py`: read a pod's node constraints."""

from __future__ import annotations

from typing import Any

from phalanx.kube.read.template.affinity import required_node_affinity, unsupported
from phalanx.model.pod import Operator, Requirement
from phalanx.model.reason import ReasonCode


def test_required_node_affinity_is_read() -> None:
    term = {
        "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    assert required_node_affinity({"affinity": {"nodeAffinity": required}}) == (
        (
            Requirement("gpu", Operator.IN, ("a100",)),
            Requirement("metadata.name", Operator.NOT_IN, ("n1",), field=True),
        ),
    )


def test_what_fit_does_not_understand_fails_closed() -> None:
    chosen = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [chosen]}
    specs: list[dict[str, Any]] = [
        {"resourceClaims": [{"name": "gpu"}]},
        {"affinity": {"podAntiAffinity": rule}},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "matchLabelKeys": ["app"]}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "nodeTaintsPolicy": "Honor"}]},
    ]
    for spec in specs:
        reason = unsupported(spec)
        assert reason is not None
        assert reason.code is ReasonCode.UNSUPPORTED
    assert unsupported({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}) is None
