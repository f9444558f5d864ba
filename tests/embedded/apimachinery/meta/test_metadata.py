"""Names, labels, annotations, owners and finalizers, on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.metadata import annotation_causes
from tests.embedded.apiserver.registry.kinds.writes import Object, create, refusal, stored, update_refusal

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def config(**meta: Any) -> Object:
    return {"metadata": {"name": "a", **meta}}


@pytest.mark.parametrize(
    ("plural", "name", "problem"),
    [
        ("configmaps", "Bad_", SUBDOMAIN),
        ("configmaps", "x" * 254, "must be no more than 253 characters"),
        ("services", "a.b", "must not contain dots"),
        ("roles", "a/b", "may not contain '/'"),
    ],
)
def test_names_follow_the_rule_of_their_kind(plural: str, name: str, problem: str) -> None:
    spec = {"spec": {"ports": [{"port": 80}]}} if plural == "services" else {}
    assert refusal(plural, {"metadata": {"name": name}} | spec) == [
        f'metadata.name: Invalid value: "{name}": {problem}'
    ]


@pytest.mark.parametrize(
    ("name", "why"), [("a.b", "must not contain dots"), ("a.B", "a lowercase RFC 1123 label must consist of")]
)
def test_a_namespaces_name_is_a_label(name: str, why: str) -> None:
    (line,) = refusal("namespaces", {"metadata": {"name": name}})
    assert line.startswith(f'metadata.name: Invalid value: "{name}": {why}')


def test_a_bad_prefix_is_told_with_the_bad_name_it_makes() -> None:
    body = {"metadata": {"generateName": "Bad_", "name": "Bad_x"}}
    assert [line.split(":")[0] for line in refusal("configmaps", body)] == ["metadata.generateName", "metadata.name"]


@pytest.mark.parametrize(
    ("meta", "lines"),
    [
        ({"labels": {"a b": "c"}}, [f'metadata.labels: Invalid value: "a b": {QUALIFIED}']),
        (
            {"labels": {"a": "x" * 64}},
            [f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'],
        ),
        ({"annotations": {"a b": "c"}}, [f'metadata.annotations: Invalid value: "a b": {QUALIFIED}']),
        (
            {"annotations": {"big": "x" * 262144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            {"finalizers": ["plain"]},
            [
                'metadata.finalizers[0]: Invalid value: "plain": '
                "name is neither a standard finalizer name nor is it fully qualified"
            ],
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": ""}]},
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
        ),
    ],
)
def test_wrong_metadata_is_refused(meta: Object, lines: list[str]) -> None:
    assert refusal("configmaps", config(**meta)) == lines


def test_an_object_has_one_controller() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "X", "name": name, "uid": name, "controller": True, "blockOwnerDeletion": True}
        for name in ("a", "b")
    ]
    (line,) = refusal("configmaps", config(ownerReferences=owners))
    assert line.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for X/a and X/b'
    )


def test_no_finalizer_is_added_to_what_is_being_deleted() -> None:
    """The real server checks metadata twice, and so says it twice."""
    old = stored("configmaps", config(finalizers=["example.com/keep"]))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    change = {"metadata": {"finalizers": ["example.com/keep", "example.com/more"]}}
    line = (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/more"}'
    )
    assert update_refusal("configmaps", old, change) == [line, line]


def test_identity_does_not_change() -> None:
    old = stored("configmaps", config())
    lines = update_refusal("configmaps", old, {"metadata": {"uid": "other"}})
    assert set(lines) == {'metadata.uid: Invalid value: "other": field is immutable'}


def test_a_standard_finalizer_needs_no_domain() -> None:
    assert create("configmaps", config(finalizers=["orphan", "example.com/x"]))["metadata"]["finalizers"]


def test_an_update_says_what_is_wrong_as_often_as_the_real_server_does() -> None:
    """rest.BeforeUpdate as on create and as on update, then a ConfigMap's own validation does both again."""
    lines = update_refusal("configmaps", stored("configmaps", config()), {"metadata": {"labels": {"a b": "c"}}})
    assert lines == [f'metadata.labels: Invalid value: "a b": {QUALIFIED}'] * 4
    lease = stored("leases", {"metadata": {"name": "a"}, "spec": {}})
    assert len(update_refusal("leases", lease, {"metadata": {"labels": {"a b": "c"}}})) == 3


def test_finalizers_of_leases_need_no_domain() -> None:
    assert create("leases", {"metadata": {"name": "a", "finalizers": ["plain"]}, "spec": {}})


def test_annotations_are_measured_in_bytes() -> None:
    assert annotation_causes({"k": "é" * (128 * 1024 - 1)}, "metadata.annotations") == []
    [cause] = annotation_causes({"k": "é" * (128 * 1024)}, "metadata.annotations")
    assert cause.line() == "metadata.annotations: Too long: may not be more than 262144 bytes"
