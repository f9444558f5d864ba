"""Values of `format` for strings: which strings fit, as Go reads them."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.schema.string_format import fits, is_known


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("byte", ("YQ==", ""), ("YQ", "Y Q=")),
        ("cidr", ("10.0.0.0/8",), ("10.0.0.0", "10.0.0.0/255.0.0.0")),
        ("creditcard", ("4111 1111 1111 1111",), ("1234",)),
        ("date", ("2024-02-29",), ("2023-02-29", "20240229", "2024-W09-4")),
        ("date-time", ("2024-02-29T00:00:00Z", "2024-02-29t00:00:00.5+02:00"), ("2024-02-29T00:00:00", "2024-02-29")),
        ("duration", ("1h", "1.5 s", "-2d"), ("h", "1")),
        ("email", ("a@b",), ("a", "@b", "a@")),
        ("hexcolor", ("#fff", "A0b1C2"), ("#ffff",)),
        ("hostname", ("a.b-c",), ("a-.b", "", "a" * 254)),
        ("ipv4", ("1.2.3.4",), ("::1", "1.2.3")),
        ("ipv6", ("::1",), ("1.2.3.4", "fe80::1%eth0")),
        ("isbn", ("0-306-40615-2", "978-0-306-40615-7", "080442957X"), ("0-306-40615-3", "978-0-306-40615-8")),
        ("isbn10", ("0306406152",), ("9780306406157",)),
        ("k8s-short-name", ("a-1",), ("a.b", "a" * 64)),
        ("k8s-long-name", ("a.b",), ("a..b",)),
        ("mac", ("01:23:45:67:89:ab", "0123.4567.89ab"), ("01:23-45",)),
        ("rgbcolor", ("rgb(255, 0,1)",), ("rgb(256,0,0)", "rgb(1,2)")),
        ("ssn", ("123-45-6789",), ("12-345-6789", "١٢٣-45-6789")),
        ("uri", ("http://a/b", "/a"), ("a", "http://[::1")),
        ("uuid", ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "A" * 32), ("a" * 31,)),
        ("uuid4", ("6ba7b810-9dad-41d1-80b4-00c04fd430c8",), ("6ba7b810-9dad-11d1-80b4-00c04fd430c8",)),
    ],
)
def test_which_strings_fit(name: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if not fits(text, name)] == []
    assert [text for text in bad if fits(text, name)] == []


def test_other_formats_are_ignored() -> None:
    assert fits("anything", "of-my-own")
    assert not is_known("of-my-own", "string")


@pytest.mark.parametrize(
    ("name", "sort", "known"),
    [
        ("date-time", "string", True),
        ("datetime", "", True),
        ("int32", "integer", True),
        ("int32", "string", False),
        ("double", "number", True),
        ("date", "number", False),
        ("date", "object", False),
    ],
)
def test_a_format_belongs_to_a_type(name: str, sort: str, *, known: bool) -> None:
    assert is_known(name, sort) is known
