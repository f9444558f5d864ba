"""Functions for addresses, networks and URLs in expressions, and the names of functions that exist."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.cel import ExpressionError, compiled, optional
from phalanx.embedded.apimachinery.expressions.metering import undeclared_function


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("isIP('10.1.2.3')", True),
        ("isIP('10.1.2.300')", False),
        ("isIP('::ffff:1.2.3.4')", False),
        ("ip('fd00::1').family()", 6),
        ("ip('127.0.0.1').isLoopback()", True),
        ("ip('10.1.2.3').isGlobalUnicast()", True),
        ("ip('224.0.0.5').isLinkLocalMulticast()", True),
        ("isCIDR('10.0.0.0/8')", True),
        ("isCIDR('10.0.0.0')", False),
        ("isCIDR('10.0.0.0/08')", False),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')", False),
        ("cidr('10.1.2.3/8').masked()", "10.0.0.0/8"),
        ("cidr('10.1.2.3/8').prefixLength()", 8),
        ("isURL('https://a.example:443/b?c=d')", True),
        ("isURL('/b')", True),
        ("isURL('b c')", False),
        ("isURL('%%')", False),
        ("url('https://a.example:443/b?c=d&c=e').getHost()", "a.example:443"),
        ("url('https://[fd00::1]:443/').getHostname()", "fd00::1"),
        ("url('https://a.example:443/b').getPort()", "443"),
        ("url('https://a.example/b').getScheme()", "https"),
        ("url('https://a.example/b?c=d&c=e').getQuery()['c']", ["d", "e"]),
        ("url('https://a.example/b').getEscapedPath()", "/b"),
        ("['b', 'a'].sort()", ["a", "b"]),
        ("['a', 'a'].distinct()", ["a"]),
        ("[[1], [2, [3]]].flatten()", [1, 2, [3]]),
        ("[1, 2, 3].slice(1, 2)", [2]),
        ("[1, 2].reverse()", [2, 1]),
    ],
)
def test_functions_of_addresses_urls_and_lists(text: str, value: Any) -> None:
    assert compiled(text).evaluate({}) == value


@pytest.mark.parametrize("text", ["ip('x')", "cidr('10.0.0.0')", "url('b c')", "ip('1.2.3.4%eth0')"])
def test_a_text_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        compiled(text).evaluate({})


def test_an_optional_value_may_be_absent() -> None:
    text = "!oldSelf.hasValue() || oldSelf.value().a == 1"
    assert compiled(text).evaluate({"oldSelf": optional()}) is True
    assert compiled(text).evaluate({"oldSelf": optional({"a": 2})}) is False


def test_a_function_that_does_not_exist_is_named_with_its_place() -> None:
    assert undeclared_function("self.a.startsWith('odd(')") == ""
    said = undeclared_function("true || odd(self.a)")
    assert said.startswith("ERROR: <input>:1:12: undeclared reference to 'odd' (in container '')")
