"""`embedded/apimachinery/meta/selectors.py`: label and field selectors, as k8s.io/apimachinery parses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.embedded.apimachinery.meta.selectors import fields, labels, named
from phalanx.embedded.apimachinery.meta.status import StatusError

KEYS, VALUES = ("a", "b", "in"), ("", "x", "y", "7", "10")


@st.composite
def requirements(draw: st.DrawFn) -> tuple[str, str, str, tuple[str, ...]]:
    """Draw the text of a requirement, its key, its operator and its values."""
    key = draw(st.sampled_from(KEYS))
    operator = draw(st.sampled_from(["exists", "!", "=", "==", "!=", "in", "notin", ">", "<"]))
    several = tuple(draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)))
    match operator:
        case "exists":
            return key, key, operator, ()
        case "!":
            return f"!{key}", key, operator, ()
        case "in" | "notin":
            return f"{key} {operator} ({', '.join(several)})", key, operator, several
        case ">" | "<":
            number = draw(st.sampled_from(["7", "9"]))
            return f"{key}{operator}{number}", key, operator, (number,)
        case _:
            return f"{key} {operator} {several[0]}", key, operator, several[:1]


def is_met(given_labels: dict[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Return whether the labels meet the requirement, by the table of `labels.Requirement.Matches`."""
    if operator in ("=", "==", "in"):
        return key in given_labels and given_labels[key] in values
    if operator in ("!=", "notin"):
        return key not in given_labels or given_labels[key] not in values
    if operator in (">", "<"):
        number = given_labels.get(key, "")
        bigger = int(number) - int(values[0]) if number.isdigit() else 0
        return bigger > 0 if operator == ">" else bigger < 0
    return (key in given_labels) is (operator == "exists")


@given(
    st.lists(requirements(), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
)
def test_labels_match_if_they_meet_every_requirement(
    drawn: list[tuple[str, str, str, tuple[str, ...]]], given_labels: dict[str, str]
) -> None:
    test = labels(",".join(text for text, *_ in drawn))
    assert test is not None
    assert test(given_labels) is all(is_met(given_labels, *rest) for _, *rest in drawn)


@pytest.mark.parametrize("number", ["9223372036854775808", "x", "1.5"])
def test_only_integers_of_64_bits_are_compared(number: str) -> None:
    with pytest.raises(StatusError, match="must be an integer"):
        labels(f"a>{number}")
    test = labels("a>7")
    assert test is not None
    assert not test({"a": number})


@given(st.lists(st.tuples(st.sampled_from(["metadata.name", "x"]), st.text(alphabet="a\\,=\n"), st.booleans())))
def test_values_of_field_selectors_come_back_unescaped(terms: list[tuple[str, str, bool]]) -> None:
    escaped = [
        f"{label}{'=' if equal else '!='}" + "".join(f"\\{sign}" if sign in "\\,=" else sign for sign in value)
        for label, value, equal in terms
    ]
    assert fields(",".join(escaped)) == terms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "unescaped character in value: 61"),
        ("a=b\\", "invalid escape sequence: \\\\$"),
        ("a=b\\x=", "invalid escape sequence: \\\\x"),
        ("a=b=\\x", "unescaped character in value: 61"),
        ("a", "can't understand 'a'"),
    ],
)
def test_a_field_selector_is_refused_for_its_first_mistake(text: str, message: str) -> None:
    with pytest.raises(StatusError, match=message):
        fields(text)


def test_a_selector_of_one_name_names_the_object() -> None:
    assert named("metadata.namespace=a,metadata.name=b") == "b"
    assert named("metadata.name!=b") is None
