"""A class is short and stands for one noun. The number of classes with many methods or attributes may only fall.

An attribute is a name that the class body annotates, or that a method stores in `self`. Records are left out: a class
with at most ten methods may have as many fields as the thing that it describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .test_structure import SOURCES, where

METHODS, ATTRIBUTES = 20, 15
RECORD = 11  # classes of fewer methods are records
MANY_METHODS, MANY_ATTRIBUTES = 22, 25  # classes that have more


@dataclass(frozen=True)
class Shape:
    """The size of a class."""

    place: str
    methods: int
    attributes: int


def shapes() -> Iterator[Shape]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
                yield Shape(f"{where(path)}: {node.name}", len(methods), len(attributes(node)))


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the names that the class body annotates, and those that are stored in `self`."""
    found = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    return found | {each.attr for each in stored if isinstance(each.value, ast.Name) and each.value.id == "self"}


def test_few_classes_are_large() -> None:
    found = list(shapes())
    methods = {one.place: one.methods for one in found if one.methods > METHODS}
    kept = {one.place: one.attributes for one in found if one.methods >= RECORD and one.attributes > ATTRIBUTES}
    assert len(methods) <= MANY_METHODS, f"give a noun in it a class of its own: {methods}"
    assert len(kept) <= MANY_ATTRIBUTES, f"give a noun in it a class of its own: {kept}"
    found_few = len(methods) > MANY_METHODS - 3 and len(kept) > MANY_ATTRIBUTES - 3
    assert found_few, f"fewer classes are large: lower the ceilings to {len(methods)} and {len(kept)}"
