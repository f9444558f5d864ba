"""Limit the cost of an expression, and check the names in it. This module does both by reading the tokens of the
expression before it is evaluated.

A CEL expression always terminates, but the costs of nested comprehensions multiply: two of them over a list of a
thousand items take a million steps. The library has no limit. So this module adds a counter to every comprehension:
`l.all(x, P)` becomes `l.all(x, tick() ? (P) : false)`. `tick` raises an error when the budget of steps or of processor
time is used up. Processor time is limited, too, because the library copies the whole result at each step of `map` and
`filter` (50,000 items took three minutes). Strings and lists grow by `+` and by literals, and comprehensions multiply
this growth. `growth` returns an upper bound of the growth.

The limits are from RuntimeCELCostBudget and PerCallLimit of k8s.io/apiserver/pkg/apis/cel (10,000,000 and 1,000,000
units; a step of a comprehension costs about five to ten units). The messages are those of cel-go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

from phalanx.embedded.apimachinery.caching import RULE, cached
from phalanx.embedded.apimachinery.expressions.functions import NAMES

TICK = "phalanx_tick"
EXCEEDED = "operation cancelled: actual cost limit exceeded"
_STEPS, _PROCESSOR_TIME_S = 100_000, 0.5
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
      | (?P<name>[A-Za-z_]\w*)
      | (?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_COMPREHENSIONS = frozenset({"all", "exists", "exists_one", "filter", "map"})
_WORDS = frozenset({"in", "true", "false", "null"})
# The names of types, and the prefixes of function names, such as `math` in `math.greatest`.
_TYPES = frozenset(
    {
        "bool",
        "bytes",
        "double",
        "duration",
        "dyn",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "timestamp",
        "type",
        "uint",
    }
    | {
        "cel",
        "cidr",
        "format",
        "google",
        "ip",
        "jsonpatch",
        "math",
        "optional",
        "quantity",
        "semver",
        "sets",
        "strings",
    }
)


class Budget:
    """The budget of an evaluation: the number of comprehension steps that are left, and the processor time of this
    thread at which the evaluation must end. The time is measured from the first step."""

    __slots__ = ("_end_s", "left")

    def __init__(self, steps: int = _STEPS) -> None:
        self.left, self._end_s = steps, 0.0

    def spend(self, steps: int) -> None:
        """Subtract the steps of a cached result from the budget. Raises ValueError when the budget is used up."""
        self.left -= steps
        if self.left < 0:
            raise ValueError(EXCEEDED)

    def tick(self) -> bool:
        """Count one step, and return True. Raises ValueError when the steps or the processor time are used up."""
        now_s = time.thread_time()
        self._end_s = self._end_s or now_s + _PROCESSOR_TIME_S
        self.left -= 1
        if self.left < 0 or now_s > self._end_s:
            self.left = 0
            raise ValueError(EXCEEDED)
        return True


@cached(16, RULE)  # several functions read the tokens of one expression, one after the other
def tokens(text: str) -> tuple[tuple[str, str], ...]:
    """Return (kind, text) of every token of an expression. Spaces are tokens as well."""
    return tuple((match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text))


def metered(text: str) -> str:
    """Return the expression with a counter in each comprehension. An expression without comprehensions is returned
    unchanged."""
    if not any(word in text for word in _COMPREHENSIONS):
        return text
    words = tokens(text)
    found: list[str] = []
    # For each open bracket, the text to insert after its present argument, to complete a counter. None if there is
    # nothing to insert.
    open_: list[str | None] = []
    bodies: list[bool] = []  # for each open bracket: True if it opens a comprehension whose variable is read next
    for number, (kind, word) in enumerate(words):
        if word in ("(", "[", "{"):
            opens = word == "(" and _calls_comprehension(words, number)
            open_.append(None)
            bodies.append(opens)
        elif word in (")", "]", "}") and open_:
            bodies.pop()
            found.append(open_.pop() or "")
        elif word == "," and open_:
            if bodies[-1]:
                bodies[-1], open_[-1] = False, ") : false)"
                found.append(f", ({TICK}() ? (")
                continue
            if open_[-1]:
                found.append(open_[-1] or "")
                open_[-1] = None
        found.append(word if kind != "space" else " ")
    return "".join(found)


def _calls_comprehension(words: Sequence[tuple[str, str]], bracket: int) -> bool:
    """Return True if the bracket opens the arguments of a comprehension, such as `.all (`. `bracket`: the index of the
    bracket in `words`."""
    before = [word for kind, word in words[max(0, bracket - 6) : bracket] if kind != "space"]
    return len(before) > 1 and before[-1] in _COMPREHENSIONS and before[-2] == "."


@cached(1024, RULE)
def growth(text: str) -> int:
    """Return the largest factor by which strings and lists can grow in comprehensions. For each comprehension, the
    number of operands that one step joins is counted; the result is the product of these numbers."""
    product, parts = 1, list[int]()  # `parts`: the number of joined operands for each open comprehension
    words = tokens(text)
    opened: list[bool] = []
    for number, (_, word) in enumerate(words):
        if word in ("(", "[", "{"):
            opened.append(word == "(" and _calls_comprehension(words, number))
            if opened[-1]:
                parts.append(1)
        elif word in (")", "]", "}") and opened:
            if opened.pop():
                product = min(product * parts.pop(), 1 << 62)
        elif word == "+" and parts:
            parts[-1] += 1
        elif word == "," and parts and opened and not opened[-1]:
            parts[-1] += 1  # a comma separates the elements of a literal; a comma in a call is counted as well
    return product


@cached(1024, RULE)
def undeclared(text: str, declared: frozenset[str]) -> str:
    """Return cel-go's error about the first undeclared name of a variable or function; "" if all names are declared."""
    words = _words_at(text)
    bound = declared | _TYPES | _WORDS | set(_variables([(kind, word) for kind, word, _ in words]))
    for number, (kind, word, at) in enumerate(words):
        before = words[number - 1][1] if number else ""
        if kind == "name" and before != "." and word not in bound and not _names_something_else(words, number):
            return located(text, at, f"undeclared reference to '{word}' (in container '')")
    return undeclared_function(text)


def undeclared_function(text: str) -> str:
    """Return cel-go's error about the first undeclared function; "" if all functions are declared."""
    words = _words_at(text)
    for (kind, word, _), (_, following, at) in pairwise(words):
        if kind == "name" and following == "(" and word not in NAMES and word not in _WORDS:
            return located(text, at, f"undeclared reference to '{word}' (in container '')")
    return ""


def _words_at(text: str) -> list[tuple[str, str, int]]:
    """Return (kind, token, offset) of the tokens of an expression, without spaces."""
    words, at = [], 0
    for kind, word in tokens(text):
        if kind != "space":
            words.append((kind, word, at))
        at += len(word)
    return words


def _variables(words: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the variables of all comprehensions in the expression."""
    for number, (kind, word) in enumerate(words):
        if kind == "name" and number > 1 and words[number - 1][1] == "(" and _calls_comprehension(words, number - 1):
            yield word


def _names_something_else(words: list[tuple[str, str, int]], number: int) -> bool:
    """Return True if the word at the index `number` does not name a variable. The word may instead name a called
    function, a struct (`A.b{`), or a field of a struct (`f:`)."""
    after = number + 1
    while after + 1 < len(words) and words[after][1] == "." and words[after + 1][0] == "name":
        after += 2
    follows = words[after][1] if after < len(words) else ""
    return follows == "{" or (after == number + 1 and follows in ("(", ":"))


def located(text: str, at: int, what: str) -> str:
    """Return the text of an error at the offset `at`: the message `what`, the line of the expression, and a mark below
    the offset."""
    line = text.count("\n", 0, at)
    start = text.rfind("\n", 0, at) + 1
    column = at - start
    return f"ERROR: <input>:{line + 1}:{column + 1}: {what}\n | {text.splitlines()[line]}\n | {'.' * column}^"
