"""Built-in kinds in discovery documents."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.discovery import aggregated


def test_built_in_kinds_name_their_group_only_where_it_is_another() -> None:
    [core] = aggregated(RESOURCES, core=True)["items"]
    [pods] = [one for one in core["versions"][0]["resources"] if one["resource"] == "pods"]
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    kinds = {one["subresource"]: one["responseKind"] for one in pods["subresources"]}
    assert kinds["status"] == {"group": "", "version": "", "kind": "Pod"}
    assert kinds["eviction"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


@pytest.mark.parametrize(("core", "has_pods"), [(True, True), (False, False)])
def test_the_core_group_has_a_document_of_its_own(core: bool, has_pods: bool) -> None:
    document = aggregated(RESOURCES, core=core)
    names = {
        resource["resource"]
        for item in document["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    assert ("pods" in names) is has_pods
