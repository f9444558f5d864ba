"""Laws of every patch, tested on documents and patches from hypothesis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.patch.apply import apply
from phalanx.embedded.apimachinery.schema.schema import type_of

Object = dict[str, Any]
POD = type_of("io.k8s.api.core.v1.Pod")
CONFIG_MAP = Resource(
    group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True,
    schema_name="io.k8s.api.core.v1.ConfigMap",
)  # fmt: skip

names = st.sampled_from(["a", "b", "c", "d"])
containers = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"image": st.sampled_from(["x", "y"])}),
    max_size=4,
    unique_by=lambda one: one["name"],
)
pods = st.builds(lambda found: {"spec": {"containers": found}}, containers)
data = st.dictionaries(names, st.sampled_from(["1", "2"]), max_size=4)


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
