"""A class is short and stands for one noun. The number of classes with many methods or attributes may only fall.

An attribute is a name that the class body annotates, or that a method stores in `self`. Records are left out: a class
with at most ten methods may have as many fields as the thing that it describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .test_structure import SOURCES, module, where

METHODS, ATTRIBUTES = 20, 15
RECORD = 11  # a class with fewer methods is a record
MANY_METHODS, MANY_ATTRIBUTES = 13, 20  # classes with more methods or attributes are counted


@dataclass(frozen=True)
class Shape:
    """The size of a class."""

    place: str
    methods: int
    attributes: int


def shapes() -> Iterator[Shape]:
    for path in SOURCES:
        for name, methods, attributes in module(path).classes:
            yield Shape(f"{where(path)}: {name}", methods, len(attributes))


@pytest.mark.slow
def test_few_classes_are_large() -> None:
    found = list(shapes())
    methods = {one.place: one.methods for one in found if one.methods > METHODS}
    kept = {one.place: one.attributes for one in found if one.methods >= RECORD and one.attributes > ATTRIBUTES}
    assert len(methods) <= MANY_METHODS, f"give a noun in it a class of its own: {methods}"
    assert len(kept) <= MANY_ATTRIBUTES, f"give a noun in it a class of its own: {kept}"
    found_few = len(methods) > MANY_METHODS - 3 and len(kept) > MANY_ATTRIBUTES - 3
    assert found_few, f"fewer classes are large: lower the ceilings to {len(methods)} and {len(kept)}"
