"""Lists of custom resources whose items have to differ."""

from __future__ import annotations

from tests.embedded.apiserver.registry.test_crd import lines


def test_of_equal_items_the_second_is_told() -> None:
    assert lines("{image: abc, tags: [a, a, a]}") == ['spec.tags[1]: Duplicate value: "a"']
