"""`embedded/apimachinery/expressions/jsonpath.py`: the JSONPath of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.jsonpath import find


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        (".l[0].n", ["x"]),
        (".l[-1].n", ["y"]),
        (".l[-1:].n", ["y"]),
        (".l[:1].n", ["x"]),
        (".l[*].n", ["x", "y"]),
        (".l[?(@.n=='y')].v", [2]),
        (".l[?(@.v==2)].n", ["y"]),
        (r".m.app\.io/name", ["z"]),
        (".m['app.io/name']", ["z"]),
        (".none.deeper", []),
        (".a.b.c", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "m": {"app.io/name": "z"}}
    assert find(obj, path) == found


def test_what_is_no_json_path_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a JSON path"):
        find({}, "spec")
