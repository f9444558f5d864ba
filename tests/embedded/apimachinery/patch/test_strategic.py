"""`embedded/apimachinery/patch/strategic.py`: strategic merge patch."""

from __future__ import annotations

import pytest
from hypothesis import given

from phalanx.embedded.apimachinery.patch.strategic import strategic_merge
from tests.embedded.apimachinery.patch.test_patch_laws import POD, Object, pods


@pytest.mark.slow
@given(pods, pods)
def test_a_strategic_merge_has_every_item_of_both_and_the_fields_of_the_patch(current: Object, patch: Object) -> None:
    merged = {one["name"]: one for one in strategic_merge(current, patch, POD)["spec"]["containers"]}
    before = {one["name"]: one for one in current["spec"]["containers"]}
    wanted = {one["name"]: one for one in patch["spec"]["containers"]}
    assert merged.keys() == before.keys() | wanted.keys()
    assert all(merged[name] == before.get(name, {}) | wanted.get(name, {}) for name in merged)
