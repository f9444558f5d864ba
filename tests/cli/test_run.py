"""`cli/commands/work/run.py`: `phalanx run -- CMD`."""

from __future__ import annotations

import pytest

from phalanx.cli.commands.work.run import InputOptions
from phalanx.cli.submission.job_options import JobOptions
from phalanx.errors import PhalanxError


@pytest.mark.parametrize(
    ("streams", "options", "message"),
    [
        (InputOptions(stdin=True), JobOptions(pods=2), r"--stdin \(-i\) and --pods 2"),
        (InputOptions(stdin=True), JobOptions(retries=1), "--retries"),
        (InputOptions(stdin=True), JobOptions(output="out.txt"), "--output"),
        (InputOptions(tty=True), JobOptions(), "needs a terminal"),
    ],
)
def test_an_interactive_job_has_one_pod_that_is_started_once(
    streams: InputOptions, options: JobOptions, message: str
) -> None:
    with pytest.raises(PhalanxError, match=message):
        streams.require(options, detach=False)
    with pytest.raises(PhalanxError, match="--detach"):
        InputOptions(stdin=True).require(JobOptions(), detach=True)
    InputOptions().require(options, detach=True)
