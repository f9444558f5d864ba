"""What users write cannot fill a cache."""

from __future__ import annotations

from phalanx.embedded.apimachinery.caching import RULE, cached
from phalanx.embedded.apimachinery.expressions.cel import compiled
from phalanx.kube.install.admission_policy import INSTALLED, RECORDS_POLICIES

asked: list[object] = []


@cached(2)
def note(argument: object) -> int:
    asked.append(argument)
    return len(asked)


def test_short_texts_are_kept_and_long_ones_are_not() -> None:
    asked.clear()
    for argument in ("a", "a", ("a", 1), ("a", 1), "b" * 257, "b" * 257, ("b" * 257,), ("b" * 257,)):
        note(argument)
    assert asked == ["a", ("a", 1), "b" * 257, "b" * 257, ("b" * 257,), ("b" * 257,)]


def test_so_many_are_kept() -> None:
    asked.clear()
    for argument in ("x", "y", "z", "x"):
        note(argument)
    assert asked == ["x", "y", "z", "x"]


def test_expressions_of_definitions_and_policies_are_compiled_once() -> None:
    """They are longer than what users write, and evaluated at every write of what they are about."""
    text = " && ".join(f"self.part{number} == {number}" for number in range(20))
    assert len(text) > 256
    assert compiled(text) is compiled(text)
    assert compiled(text + " " * RULE) is not compiled(text + " " * RULE)


def test_so_are_those_of_our_own_policies_the_longest_too() -> None:
    policies = [policy for _, policy in (*INSTALLED, *RECORDS_POLICIES)]
    texts = [rule["expression"] for policy in policies for rule in policy["spec"].get("validations", ())]
    assert texts
    for text in texts:
        assert compiled(text) is compiled(text)
