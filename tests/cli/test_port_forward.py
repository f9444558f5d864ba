"""Ports of `phalanx port-forward`, as users write them."""

from __future__ import annotations

import pytest

from phalanx.cli.commands.inside.port_forward import _pair
from phalanx.errors import PhalanxError


def test_a_port_or_a_local_and_a_remote_one() -> None:
    assert (_pair("80"), _pair("0:80"), _pair("8080:80")) == ((80, 80), (0, 80), (8080, 80))


@pytest.mark.parametrize("text", ["x", "0", "80:0", "70000", "1:2:3", "-1", "80:", "²"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(PhalanxError, match="is not a port"):
        _pair(text)
