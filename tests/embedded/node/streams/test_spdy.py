"""SPDY frames as kubectl sends them."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from phalanx.embedded.node.streams import spdy


def opened(stream: int, headers: dict[str, str], packer: Any, *, last: bool = False) -> bytes:
    """SYN_STREAM, from the client's side."""
    plain = len(headers).to_bytes(4)
    for name, value in headers.items():
        plain += len(name).to_bytes(4) + name.encode() + len(value).to_bytes(4) + value.encode()
    body = stream.to_bytes(4) + bytes(6) + packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)
    return b"\x80\x03\x00\x01" + bytes((int(last),)) + len(body).to_bytes(3) + body


def test_the_dictionary_is_that_of_the_draft() -> None:
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2  # as zlib names the dictionary in each SPDY/3 stream


def test_streams_open_with_headers_and_carry_data() -> None:
    connection, packer = spdy.SpdyConnection(), zlib.compressobj(zdict=spdy.DICTIONARY)
    first = opened(1, {"streamtype": "error", "port": "80", "requestid": "0"}, packer, last=True)
    second = opened(3, {"streamtype": "data", "port": "80", "requestid": "0"}, packer)
    wire = first + second + spdy.data_frame(3, b"hello", last=True)
    frames = [frame for at in range(0, len(wire), 7) for frame in connection.hear(wire[at : at + 7])]
    assert frames == [
        spdy.SpdyOpened(stream=1, headers={"streamtype": "error", "port": "80", "requestid": "0"}, last=True),
        spdy.SpdyOpened(stream=3, headers={"streamtype": "data", "port": "80", "requestid": "0"}, last=False),
        spdy.Data(stream=3, data=b"hello", last=True),
    ]


def test_an_answer_to_a_stream_has_no_headers() -> None:
    frame = spdy.SpdyConnection().accepted(5)
    assert frame[:4] == b"\x80\x03\x00\x02"
    assert int.from_bytes(frame[8:12]) == 5
    assert zlib.decompressobj(zdict=spdy.DICTIONARY).decompress(frame[12:]) == bytes(4)


def test_a_ping_is_answered_as_it_came() -> None:
    ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07"
    assert list(spdy.SpdyConnection().hear(ping)) == [spdy.Pinged(answer=ping)]


@pytest.mark.parametrize(
    "wire",
    [
        b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07",  # SPDY/2
        b"\x80\x03\x00\x01\x00\xff\xff\xff",  # a frame of 16 MiB
        b"\x80\x03\x00\x01\x00\x00\x00\x0e" + bytes(10) + b"junk",
    ],
)
def test_what_is_no_spdy_is_refused(wire: bytes) -> None:
    with pytest.raises(spdy.SpdyBroken):
        list(spdy.SpdyConnection().hear(wire))


def test_headers_do_not_grow_without_bound() -> None:
    connection, packer = spdy.SpdyConnection(), zlib.compressobj(zdict=spdy.DICTIONARY)
    with pytest.raises(spdy.SpdyBroken):
        list(connection.hear(opened(1, {"a": "x" * 10_000_000}, packer)))
