"""Worlds of `test_worlds` that break a rule today, by rule. A seed is only ever taken off this list."""

KNOWN: dict[str, set[int]] = {
    "R10": {882},
    "R13": {914},
    "R17": {452, 854, 949, 957, 1343, 1412},
    "R23": {684},
    "R5": {1163},
    "R7": {1070, 1609},
    "R9": {1722},
}

# Worlds of `test_purity` that a rebuilt state decides otherwise today.
IMPURE = {233}
