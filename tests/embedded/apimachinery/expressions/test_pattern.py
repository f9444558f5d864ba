"""Patterns of users take a time that grows with the text and no faster, and mean what they mean in Go."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.cel import compiled as compiled_cel
from phalanx.embedded.apimachinery.expressions.pattern import PatternError, compiled
from phalanx.embedded.apiserver.registry.crd.schema_check import schema_causes
from phalanx.embedded.apiserver.registry.crd.structural import causes

EXPLOSIVE = ("(a+)+$", "^(a|aa)*$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){30}$", "(x+x+)+y")
LONG = "a" * 50_000 + "!"  # with Python's own engine thirty letters are too many


@pytest.mark.parametrize("text", EXPLOSIVE)
def test_a_pattern_that_could_mean_much_means_it_at_once(text: str) -> None:
    assert compiled(text).search(LONG) is None


@pytest.mark.parametrize("text", EXPLOSIVE)
def test_so_do_the_patterns_of_definitions_and_of_cel(text: str) -> None:
    (cause,) = causes(LONG, {"type": "string", "pattern": text}, path="spec.x")
    assert cause.message.endswith(f"should match '{text}'")
    assert compiled_cel(f"self.find('{text}')").evaluate({"self": LONG}) == ""


@pytest.mark.parametrize("text", ["(?=a)", "a(?!b)", r"(a)\1", "a{2000}", "(", "[z-a]", r"\Z"])
def test_what_go_does_not_know_is_no_pattern(text: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp: "):
        compiled(text)


def test_a_definition_with_such_a_pattern_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}}
    (cause,) = schema_causes(schema, "spec.validation.openAPIV3Schema", root=True)
    assert cause.field == "spec.validation.openAPIV3Schema.properties[a].pattern"
    assert "must be a valid regular expression, but isn't: error parsing regexp: " in cause.message
