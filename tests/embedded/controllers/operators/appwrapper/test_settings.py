"""Tests of `embedded/controllers/operators/appwrapper/phases.py`."""

from __future__ import annotations

from phalanx.embedded.controllers.operators.appwrapper.phases import settings_of


def test_settings_are_read_from_annotations() -> None:
    said = {"retryLimit": "1", "successTTLDuration": "1000h", "warmupGracePeriodDuration": "1h30m", "odd": "1"}
    said |= {"failureGracePeriodDuration": "soon", "retryableExitCodes": "1, 2", "admissionGracePeriodDuration": "48h"}
    notes = {f"workload.codeflare.dev.appwrapper/{key}": text for key, text in said.items()}
    found = settings_of({"annotations": notes})
    assert (found.retries, found.success_s, found.failure_s) == (1, 7 * 86_400.0, 60.0)
    assert (found.admission_s, found.warmup_s) == (86_400.0, 86_400.0)  # a day is the most; warming up takes no less
    assert [found.ends(code) for code in (0, 1, 2, 3)] == [False, False, False, True]
