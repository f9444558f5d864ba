"""`metrics/address.py`: addresses to listen on, as users write them, and the sockets of servers that start later."""

from __future__ import annotations

import pytest

from phalanx.errors import PhalanxError
from phalanx.metrics.address import address


@pytest.mark.parametrize("text", ["9090", ":9090", "localhost", "127.0.0.1:http", "a:b:9090", "1.2.3.4:70000", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"127\.0\.0\.1:9090"):
        address(text)


def test_addresses() -> None:
    assert address("127.0.0.1:9090") == ("127.0.0.1", 9090)
    assert address("[::1]:0") == ("::1", 0)
    assert address("fd00::17:9090") == ("fd00::17", 9090)
