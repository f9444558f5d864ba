"""Single values, decoded as Go decodes them, and Go's messages about the others."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.schema import scalars
from phalanx.embedded.apimachinery.schema.scalars import DecodeError, Decoder


def message(decoder: Decoder, value: Any) -> str:
    with pytest.raises(DecodeError) as raised:
        decoder(value, [])
    return str(raised.value)


@pytest.mark.parametrize(
    ("decoder", "value", "decoded"),
    [
        (scalars.integer("int32"), 2**31 - 1, 2**31 - 1),
        (scalars.integer("int64"), -(2**63), -(2**63)),
        (scalars.number, 1, 1),
        (scalars.base64, "YQ==", "YQ=="),
        (scalars.int_or_string, "http", "http"),
        (scalars.int_or_string, 80, 80),
        (scalars.amount, 0.5, "500m"),
        (scalars.amount, "1000m", "1"),
        (scalars.time, "2024-01-01T00:00:00.5+02:00", "2023-12-31T22:00:00Z"),
        (scalars.microtime, "2024-01-01T00:00:00.000001Z", "2024-01-01T00:00:00.000001Z"),
    ],
)
def test_values_in_canonical_form(decoder: Decoder, value: Any, decoded: Any) -> None:
    assert decoder(value, []) == decoded


@pytest.mark.parametrize(
    ("decoder", "value", "told"),
    [
        (scalars.text("v1.Phase"), 1, "json: cannot unmarshal number into Go value of type v1.Phase"),
        (scalars.boolean, "true", "json: cannot unmarshal string into Go value of type bool"),
        (scalars.boolean, 1, "json: cannot unmarshal number into Go value of type bool"),
        (scalars.integer("int32"), True, "json: cannot unmarshal bool into Go value of type int32"),
        (scalars.integer("int32"), 2**31, "json: cannot unmarshal number 2147483648 into Go value of type int32"),
        (scalars.integer("int64"), 1.5, "json: cannot unmarshal number 1.5 into Go value of type int64"),
        (scalars.number, None, "json: cannot unmarshal null into Go value of type float64"),
        (scalars.int_or_string, [], "json: cannot unmarshal array into Go value of type int32"),
        (scalars.base64, {}, "json: cannot unmarshal object into Go value of type []uint8"),
        (scalars.base64, "Y*==", "illegal base64 data at input byte 1"),
        (scalars.base64, "YQ", "illegal base64 data at input byte 0"),
        (scalars.time, "2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        (scalars.time, "2024-01-01T24:00:00Z", 'parsing time "2024-01-01T24:00:00Z": hour out of range'),
        (scalars.time, "2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        (
            scalars.microtime,
            "2024-01-01T00:00:00Z",
            'parsing time "2024-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
    ],
)
def test_what_is_said_of_other_values(decoder: Decoder, value: Any, told: str) -> None:
    assert message(decoder, value) == told


def test_the_path_names_the_innermost_type_and_all_fields() -> None:
    error = scalars.mismatch("a", "int32").inside("replicas", "Spec").inside("spec", "Deployment")
    assert str(error) == "json: cannot unmarshal string into Go struct field Spec.spec.replicas of type int32"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (scalars.mismatch(1, "string"), "cannot convert int64 to string"),
        (scalars.mismatch(1.5, "int32"), "cannot convert float64 to int32"),
        (scalars.mismatch("a", "int32"), "unrecognized type: int32"),
        (scalars.mismatch(None, "bool"), "unrecognized type: bool"),
        (scalars.mismatch("a", "[]string"), "cannot restore slice from string"),
        (scalars.mismatch([], "map[string]string"), "cannot restore map from slice"),
        (scalars.mismatch(True, "v1.PodSpec"), "cannot restore struct from: bool"),
        (DecodeError("illegal base64 data at input byte 0"),
         "error decoding from json: illegal base64 data at input byte 0"),
    ],
)  # fmt: skip
def test_messages_of_the_converter_of_maps(error: DecodeError, told: str) -> None:
    assert error.converted() == told


def test_a_time_parses_json_itself_also_for_the_converter() -> None:
    with pytest.raises(DecodeError) as raised:
        scalars.time(5, [])
    assert raised.value.converted() == "json: cannot unmarshal number into Go value of type string"


def test_texts_in_quotes_as_go_prints_them() -> None:
    assert scalars.go_quoted('a"\\\n\0é') == r'"a\"\\\n\x00é"'
    assert scalars.go_quoted("\u2028\U000e0001\x7f") == r'"\u2028\U000e0001\x7f"'
