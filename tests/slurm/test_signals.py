"""`slurm/notation/signals.py`: signals by name or number, and when a job is warned of its time limit (sbatch(1)."""

from __future__ import annotations

from phalanx.slurm.notation.signals import number_of, read_warning


def test_signals_and_warnings() -> None:
    assert [number_of(text) for text in ("USR1", "sigterm", "9", "0", "NOPE", "65")] == [10, 15, 9, None, None, None]
    assert read_warning("USR2@90") == (12, 90, False)
    assert read_warning("B:10") == (10, 60, True)
    assert [read_warning(text) for text in ("", "USR9", "USR1@x")] == [None] * 3
    assert read_warning("R:USR1") == (10, 60, False)
