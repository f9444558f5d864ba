"""Worlds of `test_worlds` that break a rule today, by rule. A seed is only ever taken off this list."""

KNOWN: dict[str, set[int]] = {}

# Worlds of `test_purity` that a rebuilt state decides otherwise today.
IMPURE: set[int] = set()
