"""`embedded/apiserver/storage/reserve.py`: room set aside on the disk."""

from __future__ import annotations

from pathlib import Path

from phalanx.embedded.apiserver.storage.reserve import Reserve


def test_a_reserve_is_given_up_once_and_taken_again_when_there_is_room(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 100_000)
    assert reserve.held
    assert reserve.path.stat().st_size == 100_000
    assert reserve.spend()
    assert reserve.path.stat().st_size == 0
    assert not reserve.spend()
    assert reserve.regain()
    assert not Reserve(tmp_path / "larger", 2**60).held
