"""`sbatch --test-only`: what a real Slurm 22.05 says of a job that it refuses."""

from __future__ import annotations

from typing import cast

import pytest

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import expected
from tests.slurm.test_command_lines import SITE, ask


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "-p nowhere",
            "sbatch: error: invalid partition specified: nowhere\nallocation failure: Invalid partition name specified",
        ),
        ("--mem=999G", "allocation failure: Requested node configuration is not available"),
        ("-c 17", "allocation failure: Requested node configuration is not available"),
        ("-a 5-1", "allocation failure: Invalid job array specification"),
        ("-d afterok:x", "allocation failure: Job dependency problem"),
        ("--reservation=x", "allocation failure: Requested reservation is invalid"),
        ("--gres=foo:1", "sbatch: error: Invalid generic resource (gres) specification"),
        ("-n 1", "in an hour"),
    ],
)
def test_a_refused_job_is_an_allocation_failure(line: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.slurm.control.reservations.reservations", lambda api: [])
    monkeypatch.setattr(expected, "foretold", lambda api, here, asks: "in an hour")
    try:
        found = expected.planned(cast(ApiClient, None), SITE, lambda: [ask(f"{line} --wrap true")])
    except Usage as error:
        found = error.text
    assert found == told
