"""`cli/terminal/conversation.py`: single keys of a terminal, as they are pressed."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from contextlib import suppress

from phalanx.cli.terminal.conversation import keys_in, pressed_keys


def test_arrows_of_both_modes_are_known_and_other_function_keys_are_left_out() -> None:
    assert keys_in(b"\x1b[A\x1bOBq\x1b[5~\xc3\xa9e") == ["up", "down", "q", "e"]


async def test_the_terminal_has_its_settings_again_after_an_error() -> None:
    outer, inner = pty.openpty()
    try:
        before = termios.tcgetattr(inner)
        with suppress(ZeroDivisionError), pressed_keys(inner) as keys:
            assert not termios.tcgetattr(inner)[3] & (termios.ICANON | termios.ECHO)
            os.write(outer, b"e")
            assert await asyncio.wait_for(keys.get(), 60) == "e"
            raise ZeroDivisionError
        assert termios.tcgetattr(inner) == before
    finally:
        os.close(outer)
        os.close(inner)
