"""A class name leads to one class.

In the core each name is unique (`test_rooms`), and elsewhere too. `REPEATED` lists the names of two classes:

- `Cluster`, `Job` and `Queue` are names of the public Python API, which the guides use, and of the model or the state.
- `Field` is a field of Slurm's output and a source of the job order.
- `Kind` is a kind of API objects and a kind of requests."""

from __future__ import annotations

import re
from collections import Counter

from .test_structure import SOURCES

CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
REPEATED = {"Cluster", "Field", "Job", "Kind", "Queue"}


def test_each_class_name_stands_for_one_class() -> None:
    counts = Counter(name for path in SOURCES for name in CLASS.findall(path.read_text()))
    repeated = {name for name, count in counts.items() if count > 1}
    assert repeated <= REPEATED, "give the new class a name of its own"
    assert repeated >= REPEATED, "fewer names repeat: remove them from the list, so that it stays so"
    assert max(counts.values()) <= 2, counts.most_common(3)
