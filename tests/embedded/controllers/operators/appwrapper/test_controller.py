"""`embedded/controllers/operators/appwrapper/controller.py`: run AppWrappers like CodeFlare's controller."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.controllers.operators.appwrapper.controller import has_components


@pytest.mark.parametrize(
    ("spec", "whole"),
    [
        (None, False),
        ({}, False),
        ({"components": None}, False),
        ({"components": [{}]}, False),
        ({"components": [{"template": {"kind": "Job"}}]}, True),
        ({"components": []}, True),
        ({"resources": {"GenericItems": []}}, True),
    ],
)
def test_one_that_wraps_nothing_readable_is_no_defect(spec: Any, whole: bool) -> None:
    assert has_components({"metadata": {"name": "a"}, **({} if spec is None else {"spec": spec})}) is whole
