"""Limits on the depth and the size of a request's object, so that no request takes a second.

Objects are handled by recursion, so their depth is checked first. The real server takes 10,000 levels of JSON; no kind
of Kubernetes has 50.
"""

from __future__ import annotations

from typing import Any

DEPTH = 200
# The largest definitions in use (for example of RayJobs) have 30,000 values; to read, check and store these takes half
# a second.
VALUES = 50_000
CAUSES = 100  # the most causes in a refusal
OBJECT_BYTES = 3 * 2**20  # one object as JSON, and one request (the real server's limit)


def extent(value: Any, most: int) -> tuple[int, int]:
    """Return (number of values in `value`, number of its levels). The count stops when it exceeds `most`."""
    values, levels, row = 0, 0, [value]
    while row and values <= most:
        values, levels = values + len(row), levels + 1
        below: list[Any] = []
        for one in row:
            if one.__class__ is dict:
                below += one.values()
            elif one.__class__ is list:
                below += one
            if values + len(below) > most:
                return most + 1, levels
        row = below
    return values, levels
