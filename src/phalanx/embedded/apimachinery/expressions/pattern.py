"""Regular expressions. Users write both the expressions and the values that are matched. The library RE2 executes them.
It has the syntax and the speed of Go's regular expressions.

Python's own engine tries so many ways to match `(a+)+$` that it may never end. The time that RE2 needs is proportional
to the length of the value (github.com/google/re2). Syntax that RE2 lacks, such as look-ahead, is not available in Go
either."""

from __future__ import annotations

import re2

from phalanx.embedded.apimachinery.caching import cached


class PatternError(ValueError):
    """Raised for a string that is not a regular expression. The message states the reason, and begins like Go's
    message."""


def _options() -> re2.Options:
    found = re2.Options()
    found.log_errors = False
    return found


_OPTIONS = _options()


@cached(1024)
def compiled(text: str) -> re2._Regexp:
    """Return the compiled expression. The expression has the methods `search` and `finditer` of Python's `re`. Raises
    `PatternError`."""
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise PatternError(f"error parsing regexp: {_as_go(why.decode() if isinstance(why, bytes) else why)}") from None


# RE2's messages and Go's messages for the same errors.
_WORDS = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def _as_go(said: str) -> str:
    what, _, where = said.partition(": ")
    return f"{_WORDS.get(what, what)}: `{where}`"
