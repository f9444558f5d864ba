"""`embedded/node/machine/devices/pool.py`: devices that a file lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.embedded.node.machine.devices.pool import read_devices
from phalanx.errors import PhalanxError


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "Expected `object`"),
        ("resources: {a/b: [{id: x, devices: [/etc/passwd]}]}", "not a path below /dev"),
        ("resources: {a/b: [{id: x, devices: [/dev/../etc/passwd]}]}", "not a path below /dev"),
        ("resources: {a/b: [{id: x}, {id: x}]}", "two devices with the same id"),
        ("resources: {a/b: [{id: x, files: []}]}", "unknown field"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "devices.yaml").write_text(text)
    with pytest.raises(PhalanxError, match=why):
        read_devices(tmp_path / "devices.yaml")
