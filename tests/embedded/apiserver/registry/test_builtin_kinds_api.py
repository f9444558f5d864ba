"""`registry/builtin_kinds/api.py`: definitions of kinds, admission, and rights."""

from __future__ import annotations

from phalanx.embedded.apiserver.registry.builtin_kinds.api import API

KINDS = {one.plural: one for one in API}


def test_only_roles_and_their_bindings_have_a_namespace() -> None:
    assert [name for name, one in KINDS.items() if one.namespaced] == ["roles", "rolebindings"]


def test_only_definitions_and_validating_policies_have_a_status() -> None:
    found = [name for name, one in KINDS.items() if one.subresources]
    assert found == ["customresourcedefinitions", "validatingadmissionpolicies"]
    schema = KINDS["customresourcedefinitions"].schema_name
    assert schema.startswith("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.")
