"""`registry/builtin_kinds/core.py`: the kinds of the core API group."""

from __future__ import annotations

from phalanx.embedded.apiserver.registry.builtin_kinds.core import CORE, PODS

KINDS = {one.plural: one for one in CORE}


def test_namespaces_are_deleted_one_by_one() -> None:
    assert [name for name, one in KINDS.items() if "deletecollection" not in one.verbs] == ["bindings", "namespaces"]


def test_which_core_kinds_have_no_namespace() -> None:
    assert [name for name, one in KINDS.items() if not one.namespaced] == ["namespaces", "nodes", "persistentvolumes"]


def test_connections_to_pods_need_the_right_to_create() -> None:
    verbs = {one.name: one.verbs for one in PODS.subresources}
    assert {verbs[name] for name in ("attach", "exec", "portforward")} == {("create", "get")}
    assert (verbs["binding"], verbs["log"]) == (("create",), ("get",))
