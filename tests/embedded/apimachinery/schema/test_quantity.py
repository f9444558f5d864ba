"""Quantities are printed as the API server prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from phalanx.embedded.apimachinery.schema import quantity, schema


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("12E6", "12e6"),
        ("1E", "1E"),
        ("0Gi", "0"),
        ("-3", "-3"),
        ("+1", "1"),
        (".5", "500m"),
        ("5.", "5"),
    ],
)
def test_the_shortest_form_of_the_family(written: str, printed: str) -> None:
    assert quantity.canonical(written) == printed


@pytest.mark.parametrize(
    ("written", "printed"),
    [("0.1m", "1m"), ("100u", "1m"), ("1.0005", "1001m"), ("2m", "2m"), ("-1u", "-1m"), ("1Gi", "1Gi")],
)
def test_amounts_in_resource_lists_are_whole_thousandths(written: str, printed: str) -> None:
    assert quantity.in_thousandths(written) == printed
    pod = {"spec": {"overhead": {"cpu": written}, "containers": []}}
    schema.decode(schema.type_of("io.k8s.api.core.v1.Pod"), pod)
    assert pod["spec"]["overhead"] == {"cpu": printed}


@pytest.mark.parametrize("text", ["", "abc", "1x", "1.2.3", "Gi", "1Kib", "--1", "1 Gi"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityParseError):
        quantity.canonical(text)


@given(some.integers(-(10**15), 10**15), some.sampled_from(["", "m", "k", "Ki", "Mi", "G", "u", "n"]))
def test_printing_keeps_the_amount_and_is_stable(number: int, suffix: str) -> None:
    once = quantity.canonical(f"{number}{suffix}")
    assert quantity.of(once) == quantity.of(f"{number}{suffix}")
    assert quantity.canonical(once) == once


def test_sums_stay_in_the_family_of_the_first() -> None:
    assert quantity.add("1Gi", "1024Mi") == "2Gi"
    assert quantity.add("500m", "1") == "1500m"


GREATEST = str(2**63 - 1)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1e999999999", GREATEST),
        ("1e100000", GREATEST),
        ("-1e999999999", f"-{GREATEST}"),
        ("1e-999999999", "1e-9"),
        ("0e999999999", "0"),
        ("9" * 1_000_000, GREATEST),
        ("0" * 1_000_000 + "1", "1"),
        ("0." + "0" * 1_000_000 + "1", "1n"),
        ("1." + "3" * 1_000_000, "1333333334n"),
        ("10E", "10E"),
    ],
    ids=lambda text: text[:16],
)
def test_what_is_far_beyond_the_greatest_costs_no_more_than_its_text(written: str, printed: str) -> None:
    assert quantity.canonical(written) == printed


def test_an_exponent_that_is_no_integer_of_64_bits_is_refused() -> None:
    with pytest.raises(quantity.QuantityParseError):
        quantity.canonical(f"1e{'9' * 20}")


@pytest.mark.parametrize(
    "text", ["9" * 1_000_000 + "!", "1" + "E" * 1_000_000, "9." * 500_000], ids=lambda text: text[-4:]
)
def test_a_long_text_that_is_no_quantity_is_refused_at_once(text: str) -> None:
    with pytest.raises(quantity.QuantityParseError):
        quantity.canonical(text)
