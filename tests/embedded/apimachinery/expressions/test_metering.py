"""What an expression may cost, and names that stand for nothing."""

from __future__ import annotations

import time

import pytest

from phalanx.embedded.apimachinery.expressions.cel import CelScope, ExpressionError, compiled
from phalanx.embedded.apimachinery.expressions.metering import (
    EXCEEDED,
    TICK,
    Budget,
    growth,
    metered,
    undeclared,
)

pytestmark = pytest.mark.slow

COUNT = f"({TICK}() ? ("


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.all(x,x>1)", f"a.all(x, {COUNT}x>1) : false))"),
        ("a.map(x,x>1,[x,2])", f"a.map(x, {COUNT}x>1) : false),[x,2])"),
        ("a.filter(x,x.exists(y,f(x,y)))", f"a.filter(x, {COUNT}x.exists(y, {COUNT}f(x,y)) : false))) : false))"),
        ('"a.all(x,x)"+size(map)', '"a.all(x,x)"+size(map)'),
        ("all(a,b)", "all(a,b)"),
    ],
)
def test_every_comprehension_has_its_counter(text: str, expected: str) -> None:
    assert metered(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "l.all(a, l.all(b, l.all(c, c >= 0)))",
        "l.exists(a, l.exists(b, l.exists(c, c < 0)))",
        "l.map(a, l.map(b, l))",
        "l.filter(a, l.filter(b, l.filter(c, true).size() > 0).size() > 0)",
        "['aaaa']" + ".map(a, a + a)" * 60,
        "[[1]]" + ".map(a, [a, a])" * 40,
        "s.replace('a', s)",
        "l.map(a, s).join(s)",
    ],
)
def test_what_costs_too_much_is_ended(text: str) -> None:
    began_s = time.thread_time()
    with pytest.raises(ExpressionError, match=EXCEEDED):
        compiled(text).evaluate({"l": list(range(500)), "s": "a" * 100_000})
    assert time.thread_time() - began_s < 10


def test_a_budget_is_of_all_expressions_about_an_object() -> None:
    scope = CelScope({"l": list(range(60))}, Budget(100))
    assert compiled("l.all(a, a >= 0)").evaluate(scope) is True
    with pytest.raises(ExpressionError, match=EXCEEDED):
        compiled("l.all(a, a >= 0)").evaluate(scope)


@pytest.mark.parametrize(
    ("text", "most"),
    [("l.all(a, a.x + a.y > 3)", 2), ("l.map(a, [a, a]).map(b, b + b + b)", 6), ("a + b + c", 1)],
)
def test_growth_multiplies_in_comprehensions(text: str, most: int) -> None:
    assert growth(text) == most


def test_names_that_stand_for_nothing() -> None:
    declared = frozenset({"object"})
    text = "object.x > 1 &&\n  nobody.y == [1, 2].all(q, q > 0)"
    assert undeclared(text, declared) == (
        "ERROR: <input>:2:3: undeclared reference to 'nobody' (in container '')\n"
        " |   nobody.y == [1, 2].all(q, q > 0)\n | ..^"
    )
    for right in (
        "size(object.l) == int('1') && has(object.a)",
        'Object{spec: Object.spec{a: "b"}, x: object.x}',
        "object.l.map(x, x.exists(y, y == x)) == null",
        "object.x ? 'nobody' : r'no\\body' // nobody",
        "type(object.x) == string && jsonpatch.escapeKey('a') != ''",
    ):
        assert undeclared(right, declared) == "", right
