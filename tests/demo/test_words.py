"""`demo/words.py`: the work of the demo."""

from __future__ import annotations

import json
from collections import Counter

from phalanx.demo.words import count, parts, summarize
from tests.demo.test_executor_wire import WHOLE


def test_the_text_is_real_and_splitting_it_changes_no_count() -> None:
    some = [text for _, text in zip(range(3), parts(20_000), strict=False)]
    assert sum((count(text) for text in some), Counter()) == count("\n".join(some))
    assert sum(map(len, some)) > 20_000


def test_a_summary_is_one_line_of_json() -> None:
    assert json.loads(summarize(WHOLE).line())["words"] == 11
