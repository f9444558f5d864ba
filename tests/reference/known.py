"""Worlds of `test_worlds` that break a rule today, by rule. Seeds are removed from this list, never added."""

KNOWN: dict[str, set[int]] = {}

# Worlds of `test_purity` in which a rebuilt state makes different decisions today.
IMPURE: set[int] = set()
