"""`embedded/apiserver/transport/go_json.py`: syntax errors and duplicate fields in Go's words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.apiserver.transport.go_json import duplicates, syntax_error

KEYS = st.sampled_from(["a", "b", "c", 'q":', "\u00e4"])
BLANKS = st.sampled_from(["", "", " ", "\n", "\t ", "\r\n"])
SCALARS = st.sampled_from(["1", "-2.5e3", "true", "null", '"x"', '"\\" :"', '"\\u0022\\u003a"', '"\u00e4\\n"'])


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[str, list[str]]:
    """Draw the text of an object, and the paths of its duplicate fields."""
    members, twice, seen = [], [], set()
    for _ in range(draw(st.integers(0, 4))):
        key = draw(KEYS)
        text, below = draw(objects(depth - 1)) if depth and draw(st.booleans()) else (draw(SCALARS), [])
        twice += [key] if key in seen else []
        twice += [f"{key}.{path}" for path in below]
        seen.add(key)
        members.append(f"{draw(BLANKS)}{json.dumps(key)}{draw(BLANKS)}:{draw(BLANKS)}{text}")
    return "{" + f"{draw(BLANKS)},".join(members) + draw(BLANKS) + "}", twice


@given(objects())
def test_every_duplicate_field_is_found_however_the_text_is_spaced_and_escaped(drawn: tuple[str, list[str]]) -> None:
    text, twice = drawn
    assert duplicates(text.encode(), msgspec.json.decode(text)) == twice


def test_fields_of_objects_in_lists_have_their_index() -> None:
    text = b'{"spec": {"list": [1, {"a" : 1, "a" : 2}]}}'
    assert duplicates(text, msgspec.json.decode(text)) == ["spec.list[1].a"]


TEXT = '{"kind": "Pod", "spec": {"a": [1, -2.5e+3, true, null, "x\\u00e4\\"\\n"], "b": {}}, "c": ""}'


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


@given(st.data())
def test_a_text_has_an_error_if_and_only_if_it_is_no_json(data: Any) -> None:
    at = data.draw(st.integers(0, len(TEXT)))
    new = data.draw(st.sampled_from(["", "{", "}", "[", "]", '"', ",", ":", "0", "-", "e", "t", "\\", " ", "\x01"]))
    text = TEXT[:at] + new + TEXT[at + data.draw(st.integers(0, 2)) :]
    assert (syntax_error(text.encode()) == "") is is_json(text), text


# The messages of `json.Unmarshal`.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unexpected end of JSON input"),
        ('{"a":', "unexpected end of JSON input"),
        ("{'a': 1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": 1 "b": 2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("tru]", "invalid character ']' in literal true (expecting 'e')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("{} x", "invalid character 'x' after top-level value"),
        ('"\x01"', "invalid character '\\x01' in string literal"),
        ('"\\q"', "invalid character 'q' in string escape code"),
    ],
)
def test_the_message_names_the_character_and_its_place(text: str, message: str) -> None:
    assert syntax_error(text.encode()) == message
