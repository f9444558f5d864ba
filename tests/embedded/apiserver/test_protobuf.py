"""Protobuf bodies, as kubectl sends them: read by the definitions' types, refused by name where they are not known."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver import protobuf
from phalanx.embedded.apiserver.status import ApiError


def number(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(at: int, value: int | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return number(at << 3) + number(value & (1 << 64) - 1)
    raw = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(raw)) + raw


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_texts_maps_bytes_and_times() -> None:
    meta = field(1, "s") + field(8, field(1, 1_000_000_000)) + field(11, field(1, "app") + field(2, "x"))
    raw = field(1, meta) + field(2, field(1, "key") + field(2, b"\x00\xff")) + field(3, "Opaque")
    assert protobuf.decode(body("v1", "Secret", raw)) == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "creationTimestamp": "2001-09-09T01:46:40Z", "labels": {"app": "x"}},
        "data": {"key": "AP8="},
        "type": "Opaque",
    }


def test_lists_quantities_negative_numbers_and_messages_that_json_does_not_nest() -> None:
    secret = field(1, field(1, "name-of-secret")) + field(2, "key")
    env = field(1, "TOKEN") + field(3, field(4, secret))
    limits = field(1, "cpu") + field(2, field(1, "500m"))
    container = field(1, "c") + field(3, "sleep") + field(3, "5") + field(7, env) + field(8, field(1, limits))
    spec = field(2, container) + field(25, -5)
    found = protobuf.decode(body("v1", "Pod", field(2, spec)))["spec"]
    assert found == {
        "containers": [
            {
                "name": "c",
                "command": ["sleep", "5"],
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "name-of-secret", "key": "key"}}}],
                "resources": {"limits": {"cpu": "500m"}},
            }
        ],
        "priority": -5,
    }


def test_int_or_string() -> None:
    ports = field(1, field(3, 80) + field(4, field(1, 0) + field(2, 8080)))
    named = field(1, field(3, 81) + field(4, field(1, 1) + field(3, "http")))
    found = protobuf.decode(body("v1", "Service", field(2, ports + named)))["spec"]["ports"]
    assert found == [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "http"}]


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        (b"{}", 400, "does not appear to be a protobuf message"),
        (body("v1", "Secret", b"\x0a\x7f"), 400, "cannot be read"),
        (body("v1", "Secret", field(77, "x")), 415, "field 77 of Secret"),
        (body("apps/v1", "Nothing", b""), 415, "Nothing of apps/v1"),
    ],
)
def test_what_cannot_be_read_is_named(raw: bytes, code: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        protobuf.decode(raw)
    assert caught.value.code == code
