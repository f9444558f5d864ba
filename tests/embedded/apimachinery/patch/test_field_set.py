"""`embedded/apimachinery/schema/field_set.py`: sets of fields, kept as they stand in `managedFields`."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from phalanx.embedded.apimachinery.schema.field_set import (
    difference,
    intersection,
    paths,
    sorted_set,
    union,
)
from phalanx.embedded.apimachinery.schema.typed import compare, field_set
from tests.embedded.apimachinery.patch.test_patch_laws import POD, Object, pods


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
