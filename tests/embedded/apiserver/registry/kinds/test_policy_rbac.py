"""Roles and role bindings: invalid objects."""

from __future__ import annotations

from tests.embedded.apiserver.registry.kinds.writes import named, refusal, stored, update_refusal


def test_wrong_roles_are_refused() -> None:
    assert refusal("roles", named(rules=[{"apiGroups": [""], "resources": ["pods"]}])) == [
        "rules[0].verbs: Required value: verbs must contain at least one value"
    ]
    assert refusal("roles", named(rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}])) == [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
    ]


def test_a_binding_keeps_its_role() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    old = stored("rolebindings", named(roleRef=role, subjects=[{"kind": "User", "name": "u"}]))
    assert old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    (line,) = update_refusal("rolebindings", old, {"roleRef": {"name": "other"}})
    assert line.endswith("cannot change roleRef")
