"""What is typed and shown while a command runs in a pod."""

from __future__ import annotations

import pytest

from phalanx.cli.cluster.jobs.attending import in_brief
from phalanx.cli.terminal.conversation import _without


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"\r\n# "], b"# "),
        ([b"\r", b"\n", b"# "], b"# "),
        ([b"\r\n", b"\r\nlater"], b"\r\nlater"),
        ([b"# \r\n"], b"# \r\n"),
    ],
)
def test_the_echo_of_the_first_line_is_not_shown(pieces: list[bytes], shown: bytes) -> None:
    found = bytearray()
    take = _without(b"\r\n", found.extend)
    for piece in pieces:
        take(piece)
    assert bytes(found) == shown


def test_a_cause_has_no_control_characters_of_the_log() -> None:
    cause = "container main: exit code 7; its log ends:\n  \x1b[?2004l\x1b[1;31mbroken\x07\x1b[0m"
    assert in_brief(cause) == "container main: exit code 7: broken"
