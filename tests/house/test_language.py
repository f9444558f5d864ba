"""A docstring's first sentence has a term as its subject, or says what to "Return": no pronoun without its noun."""

from __future__ import annotations

import ast
import re

from .test_structure import SOURCE

PRONOUN = re.compile(r"(It|Its|Who|Whoever|Whom|Another|Others|They|Those|What|Whether|Somebody|Nobody|One)\b")
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def opens_with_a_pronoun(text: str) -> list[int]:
    """Return the lines of functions and classes whose docstring has a pronoun for its subject."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    return [node.lineno for node in nodes if PRONOUN.match(ast.get_docstring(node) or "")]


def test_a_docstring_opens_with_a_term() -> None:
    found = {str(path.relative_to(SOURCE)): opens_with_a_pronoun(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}, "name the thing: a term, or `Return the ...`"


def test_a_pronoun_is_noticed() -> None:
    assert opens_with_a_pronoun('def f():\n    """What a queue has."""\n') == [1]
    assert opens_with_a_pronoun('def f():\n    """Return what a queue has."""\n') == []
