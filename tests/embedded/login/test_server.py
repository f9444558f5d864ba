"""The socket at which users log in."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from phalanx.embedded.login.server import _listening
from phalanx.errors import PhalanxError


def test_a_socket_at_which_another_listens_is_not_taken_from_it(tmp_path: Path) -> None:
    place = tmp_path / "login.sock"
    with _listening(place) as first:
        first.listen()
        with pytest.raises(PhalanxError, match=r"to another `phalanx up --shared`.*--login-socket"), _listening(place):
            pass
        with socket.socket(socket.AF_UNIX) as user:
            user.connect(str(place))
    assert not place.exists()


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "login.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with _listening(place) as mine:
        mine.listen()
        with socket.socket(socket.AF_UNIX) as user:
            user.connect(str(place))
