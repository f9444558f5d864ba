"""The first sentence of a docstring has a term as its subject, or opens with a verb like "Return". It does not open
with a pronoun. The exceptions that a docstring names exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable

import pytest

from .test_structure import SOURCE, SOURCES, docstrings, module, statements

PRONOUN = re.compile(r"(It|Its|Who|Whoever|Whom|Another|Others|They|Those|What|Whether|Somebody|Nobody|One)\b")
EXCEPTION = re.compile(r"^ *class (\w+)|\b[a-z]\w*\.([A-Z]\w+)|^ *from .* import .*?\b([A-Z]\w+)$", re.MULTILINE)
RAISED = re.compile(r"\bRaises:? `?([A-Z]\w+)`?(?: (?:or|and) `?([A-Z]\w+))?")


def opens_with_a_pronoun(found: Iterable[tuple[int, str]]) -> list[int]:
    """Return the lines of docstrings that have a pronoun for their subject."""
    return [line for line, text in found if PRONOUN.match(text)]


def written(text: str) -> tuple[tuple[int, str], ...]:
    return docstrings(statements(ast.parse(text).body))


def raised_in(text: str) -> set[str]:
    """Return the exceptions that a sentence of the text says are raised."""
    return {name for found in RAISED.findall(text) for name in found if name}


@pytest.mark.slow
def test_an_exception_that_a_docstring_names_exists() -> None:
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    named = {name for text in texts.values() for found in EXCEPTION.findall(text) for name in found} | set(
        dir(builtins)
    )
    wrong = {path: unknown for path, text in texts.items() if (unknown := raised_in(text) - named)}
    assert wrong == {}, "the exception has another name now"


def test_which_exceptions_are_read() -> None:
    assert raised_in("Raises `Gone` or ValueError. Raises if") == {"Gone", "ValueError"}


@pytest.mark.slow
def test_a_docstring_opens_with_a_term() -> None:
    found = {str(path.relative_to(SOURCE)): opens_with_a_pronoun(module(path).docstrings) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}, "name the thing: a term, or `Return the ...`"


def test_a_pronoun_is_noticed() -> None:
    assert opens_with_a_pronoun(written('def f():\n    """What a queue has."""\n')) == [1]
    assert opens_with_a_pronoun(written('def f():\n    """Return what a queue has."""\n')) == []
