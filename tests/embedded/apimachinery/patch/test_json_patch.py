"""`embedded/apimachinery/patch/json_patch.py`: JSON patch (RFC 6902) and JSON merge patch."""

from __future__ import annotations

import copy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.apimachinery.patch.json_patch import json_patch, merge_patch
from tests.embedded.apimachinery.patch.test_patch_laws import Object

scalars = st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=2)


keys = st.text("abc/~", min_size=1, max_size=2)


documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


objects = st.dictionaries(keys, documents, max_size=4)


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
