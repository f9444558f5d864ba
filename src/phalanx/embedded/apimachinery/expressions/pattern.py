"""Regular expressions that users write, for values that users write: RE2, as Go's are.

Python's own engine tries what `(a+)+$` may mean in more ways than there is time for; RE2 takes a time that grows with
the text and no faster (github.com/google/re2). Syntax that RE2 lacks, such as look-ahead, is missing in Go too.
"""

from __future__ import annotations

import re2

from phalanx.embedded.apimachinery.caching import cached


class PatternError(ValueError):
    """The text is not a regular expression. The message says why, and begins as in Go."""


def _options() -> re2.Options:
    found = re2.Options()
    found.log_errors = False
    return found


_OPTIONS = _options()


@cached(1024)
def compiled(text: str) -> re2._Regexp:
    """Return the expression; `search` and `finditer` are those of Python's `re`. Raises `PatternError`."""
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise PatternError(f"error parsing regexp: {_as_go(why.decode() if isinstance(why, bytes) else why)}") from None


# How RE2 and Go word the same mistakes.
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
