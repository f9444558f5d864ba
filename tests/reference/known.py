"""Worlds of `test_worlds` that break a rule today, by rule. A seed is only ever taken off this list."""

KNOWN: dict[str, set[int]] = {
    "R10": {882},
    "R17": {67, 116, 233, 452, 632, 684, 871, 949, 957, 1070, 1144, 1216, 1343, 1348, 1412, 1931},
    "R19": {1151},
    "R5": {1163},
    "R7": {1609},
    "R9": {805, 1722},
}

# Worlds of `test_purity` that a rebuilt state decides otherwise today.
IMPURE = {233}
