"""Network policies: their defaults, and the warning that they have no effect."""

from __future__ import annotations

from tests.embedded.apiserver.registry.kinds.writes import create, named, resource


def test_a_network_policy_is_kept_and_its_author_warned() -> None:
    """spark-submit writes one and fails if it cannot."""
    rule = {"from": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": [{"port": 80}]}
    obj = create("networkpolicies", named(spec={"ingress": [rule]}))
    assert obj["spec"]["policyTypes"] == ["Ingress"]
    assert obj["spec"]["podSelector"] == {}
    assert obj["spec"]["ingress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert "all traffic stays allowed" in resource("networkpolicies").strategy.warnings(obj, None)[0]
