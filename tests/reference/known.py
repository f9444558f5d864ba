"""Worlds of `test_worlds` that break a rule today, by rule. A seed is only ever taken off this list."""

KNOWN: dict[str, set[int]] = {
    "R13": {914},
    "R23": {684},
    "R7": {1348},
}
