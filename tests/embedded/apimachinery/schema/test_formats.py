"""Formats of names and values: valid values, and the first words of the messages about invalid ones."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.formats import Format


@pytest.mark.parametrize(
    ("check", "valid"),
    [
        (formats.dns_label, ("a", "1-a", "a" * 63)),
        (formats.dns_subdomain, ("a.b-c.1", "a" * 253)),
        (formats.dns_1035_label, ("a1",)),
        (formats.label_value, ("", "A.b_c-1", "x" * 63)),
        (formats.qualified_name, ("a", "A_b.c", "example.com/x")),
        (formats.wildcard_subdomain, ("*.example.com",)),
        (formats.search_domain, ("_tcp.example.com", "a_b")),
        (formats.env_name, ("a", "1 b", "-._~")),
        (formats.config_key, ("a", ".a", "..a"[1:])),
        (formats.domain_path, ("acme.io/foo", "acme.io/a/b?"[:-1])),
        (formats.port_name, ("http", "a-1", "x" * 15)),
        (formats.ip, ("10.0.0.1", "::", "::ffff:1.2.3.4")),
        (formats.cidr, ("10.0.0.1/8", "::/0")),
        (formats.path_segment, ("system:node", "...")),
    ],
)
def test_valid(check: Format, valid: tuple[str, ...]) -> None:
    assert [check(text) for text in valid] == [()] * len(valid)


@pytest.mark.parametrize(
    ("check", "text", "problems"),
    [
        (formats.dns_label, "", ("a lowercase RFC 1123 label must consist",)),
        (formats.dns_label, "a.b", ("must not contain dots",)),
        (formats.dns_label, "A.b", ("a lowercase RFC 1123 label must consist",)),
        (formats.dns_label, "a." * 40 + "a", ("must be no more than 63 characters", "must not contain dots")),
        (formats.dns_subdomain, "a..b", ("a lowercase RFC 1123 subdomain must consist",)),
        (formats.dns_subdomain, "a\n", ("a lowercase RFC 1123 subdomain must consist",)),
        (formats.dns_1035_label, "1a", ("a DNS-1035 label must consist",)),
        (formats.label_value, "é" * 32, ("must be no more than 63 bytes", "a valid label must be an empty string")),
        (formats.qualified_name, "a/b/c", ("a valid label key must consist",)),
        (formats.qualified_name, "/b", ("prefix part must be non-empty",)),
        (formats.qualified_name, "a/", ("name part must be non-empty", "name part must consist")),
        (formats.qualified_name, "A/" + "b" * 64, ("prefix part a lowercase", "name part must be no more than 63")),
        (formats.env_name, "a=b", ("a valid environment variable name",)),
        (formats.config_key, "..", ("must not be '..'",)),
        (formats.config_key, "..a", ("must not start with '..'",)),
        (formats.domain_path, "acme.io/", ("must be a domain-prefixed path",)),
        (formats.domain_path, "Acme/x", ("a lowercase RFC 1123 subdomain must consist",)),
        (formats.domain_path, "a/b c", ("Invalid path",)),
        (formats.port_name, "1--", ("must contain at least one letter", "must not contain con", "must not begin")),
        (formats.ip, "10.0.0", ("must be a valid IP address",)),
        (formats.ip, "fe80::1%eth0", ("must be a valid IP address",)),
        (formats.outer_ip, "fe80::1%eth0", ("must be a valid IP address",)),
        (formats.outer_ip, "::", ("may not be unspecified (::)",)),
        (formats.outer_ip, "127.0.0.2", ("may not be in the loopback range",)),
        (formats.outer_ip, "169.254.1.1", ("may not be in the link-local range",)),
        (formats.outer_ip, "ff02::1", ("may not be in the link-local multicast range",)),
        (formats.cidr, "10.0.0.0", ("must be a valid CIDR value",)),
        (formats.cidr, "10.0.0.0/33", ("must be a valid CIDR value",)),
        (formats.cidr, "10.0.0.0/255.0.0.0", ("must be a valid CIDR value",)),
        (formats.cidr, "fe80::%eth0/64", ("must be a valid CIDR value",)),
        (formats.path_segment, "a/%", ("may not contain '/'", "may not contain '%'")),
    ],
)  # fmt: skip
def test_invalid(check: Format, text: str, problems: tuple[str, ...]) -> None:
    found = check(text)
    assert len(found) == len(problems)
    assert all(told.startswith(words) for told, words in zip(found, problems, strict=True)), found


def test_ports_are_from_1_to_65535() -> None:
    assert [formats.port_number(port) for port in (1, 65535)] == [(), ()]
    assert [formats.port_number(port) for port in (0, 65536)] == [("must be between 1 and 65535, inclusive",)] * 2


def test_a_prefix_may_end_with_a_dash_and_a_name_may_not() -> None:
    assert formats.dns_label("job-")
    assert formats.dns_label(formats.as_prefix("job-")) == ()
    assert formats.dns_label(formats.as_prefix("-")), "a dash alone"
