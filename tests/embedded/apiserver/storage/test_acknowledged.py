"""Tests of `embedded/apiserver/storage/acknowledged.py`."""

from __future__ import annotations

from pathlib import Path

from phalanx.embedded.apiserver.storage.acknowledged import Acknowledged, Receipt


def test_half_a_receipt_counts_as_none_and_old_ones_are_overwritten(tmp_path: Path) -> None:
    known = Acknowledged(tmp_path / "a")
    known.reset(Receipt(0, 1.0, ""))
    known.note(Receipt(version, 2.0, f"pods ns/p{version}") for version in range(1, 10_001))
    assert [one.version for one in known.latest()] == list(range(10_000 - 1023, 10_001))
    known.close()
    content = bytearray((tmp_path / "a").read_bytes())
    content[10_000 % 1024 * 128 + 30] ^= 1
    (tmp_path / "a").write_bytes(content)
    known = Acknowledged(tmp_path / "a")
    assert known.latest()[-1] == Receipt(9_999, 2.0, "pods ns/p9999")
    known.close()
