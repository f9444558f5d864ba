"""Limits on the depth and the size of an object in a request, so that no request takes longer than about a second.

Many functions process objects recursively, so the server checks the depth of an object first. Kube-apiserver accepts
10,000 levels of JSON, but no kind of Kubernetes has as many as 50.
"""

from __future__ import annotations

DEPTH = 200
# The largest definitions in use (for example of RayJobs) have 30,000 values. The server needs half a second to read,
# check and store such a definition.
VALUES = 50_000
CAUSES = 100  # the maximum number of causes in the Status of a refused request
OBJECT_BYTES = 3 * 2**20  # the maximum size of an object in JSON, and of a request (as in kube-apiserver)


def extent(value: object, most: int) -> tuple[int, int]:
    """Return the number of values in `value`, and the number of its levels. The count of values stops when it exceeds
    `most`."""
    values, levels, row = 0, 0, [value]
    while row and values <= most:
        values, levels = values + len(row), levels + 1
        below: list[object] = []
        for one in row:
            if one.__class__ is dict:
                below += one.values()
            elif one.__class__ is list:
                below += one
            if values + len(below) > most:
                return most + 1, levels
        row = below
    return values, levels
