"""Laws of every patch, tested on documents and patches from hypothesis."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.apiserver.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.apimachinery.patch.apply import apply
from phalanx.embedded.apiserver.apimachinery.patch.json_patch import json_patch, merge_patch
from phalanx.embedded.apiserver.apimachinery.patch.strategic import strategic_merge
from phalanx.embedded.apiserver.apimachinery.schema.field_set import (
    difference,
    intersection,
    paths,
    sorted_set,
    union,
)
from phalanx.embedded.apiserver.apimachinery.schema.schema import type_of
from phalanx.embedded.apiserver.apimachinery.schema.typed import compare, field_set

Object = dict[str, Any]
POD = type_of("io.k8s.api.core.v1.Pod")
CONFIG_MAP = Resource(
    group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True,
    schema_name="io.k8s.api.core.v1.ConfigMap",
)  # fmt: skip

scalars = st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=2)
keys = st.text("abc/~", min_size=1, max_size=2)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(keys, documents, max_size=4)
names = st.sampled_from(["a", "b", "c", "d"])
containers = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"image": st.sampled_from(["x", "y"])}),
    max_size=4,
    unique_by=lambda one: one["name"],
)
pods = st.builds(lambda found: {"spec": {"containers": found}}, containers)
data = st.dictionaries(names, st.sampled_from(["1", "2"]), max_size=4)


@pytest.mark.slow
@given(objects, objects)
def test_a_json_patch_made_from_two_documents_leads_from_one_to_the_other(before: Object, after: Object) -> None:
    kept = copy.deepcopy(before)
    assert json_patch(before, jsonpatch.make_patch(before, after).patch) == after
    assert before == kept


@pytest.mark.slow
@given(objects, objects)
def test_a_merge_patch_twice_is_a_merge_patch_once(current: Object, patch: Object) -> None:
    once = merge_patch(current, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.slow
@given(pods, pods)
def test_a_strategic_merge_has_every_item_of_both_and_the_fields_of_the_patch(current: Object, patch: Object) -> None:
    merged = {one["name"]: one for one in strategic_merge(current, patch, POD)["spec"]["containers"]}
    before = {one["name"]: one for one in current["spec"]["containers"]}
    wanted = {one["name"]: one for one in patch["spec"]["containers"]}
    assert merged.keys() == before.keys() | wanted.keys()
    assert all(merged[name] == before.get(name, {}) | wanted.get(name, {}) for name in merged)


@pytest.mark.slow
@given(pods, pods)
def test_a_comparison_names_the_fields_that_came_changed_and_went(old: Object, new: Object) -> None:
    change, had, has = compare(old, new, POD), field_set(old, POD), field_set(new, POD)
    assert set(paths(difference(has, had))) <= set(paths(change.written))
    assert set(paths(difference(had, has))) <= set(paths(change.removed))
    assert bool(change) is (_by_name(old) != _by_name(new))


def _by_name(pod: Object) -> Object:
    return {one["name"]: one for one in pod["spec"]["containers"]}


@pytest.mark.slow
@given(pods, pods)
def test_field_sets_are_sets(one: Object, other: Object) -> None:
    a, b = field_set(one, POD), field_set(other, POD)
    left, right = set(paths(a)), set(paths(b))
    assert set(paths(union(a, b))) == left | right
    assert set(paths(intersection(a, b))) == left & right
    assert set(paths(difference(a, b))) == left - right
    for found in (a, union(a, b), intersection(a, b), difference(a, b), compare(one, other, POD).touched()):
        assert msgspec.json.encode(found) == msgspec.json.encode(sorted_set(found)), (
            "in the order in which it is written"
        )


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), data), min_size=1, max_size=6))
def test_after_forced_applies_the_object_has_what_each_manager_last_wanted(writes: list[tuple[str, Object]]) -> None:
    """A forced apply is never refused: a key has the value of its last applier, and exists while any of its owners
    applies it."""
    obj: Object | None = None
    owners: dict[str, dict[str, str]] = {}
    for second, (manager, wanted) in enumerate(writes):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": wanted}
        obj = apply(CONFIG_MAP, obj, config, manager, force=True, now=f"2026-01-01T00:00:{second:02}Z")
        for key, value in wanted.items():
            owners = {
                name: {k: v for k, v in held.items() if not (k == key and v != value)}
                for name, held in owners.items()
            }  # fmt: skip
        owners[manager] = wanted
    expected = {key: value for held in owners.values() for key, value in held.items()}
    assert obj is not None
    assert (obj.get("data") or {}) == expected
