"""A class name leads to one class: how many names stand for several classes may only fall.

In the core each name is unique (`test_rooms`). Elsewhere two programs may use the word of their own field."""

from __future__ import annotations

import re
from collections import Counter

from .test_structure import SOURCES

CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
REPEATED, MOST = 28, 3  # names of several classes; classes of one name


def test_few_names_stand_for_several_classes() -> None:
    counts = Counter(name for path in SOURCES for name in CLASS.findall(path.read_text()))
    repeated = [name for name, count in counts.items() if count > 1]
    assert len(repeated) <= REPEATED, "give the new class a name of its own"
    assert len(repeated) > REPEATED - 15, "fewer names repeat: lower the ceiling, so that it stays so"
    assert max(counts.values()) <= MOST, counts.most_common(3)
