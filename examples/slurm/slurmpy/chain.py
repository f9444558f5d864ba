"""What a user of slurmpy writes for a Slurm cluster: nothing here knows Phalanx."""

import time
from pathlib import Path

from slurmpy import Slurm

slurm = Slurm("chain", {"time": "00:05:00", "mem": "100M"})
first = slurm.run("echo 20 > first.txt")
both = slurm.run("echo $(($(cat first.txt) + 22)) > both.txt", depends_on=[first])
deadline_s = time.monotonic() + 120
while not (result := Path("both.txt")).exists() or not result.read_text():
    assert time.monotonic() < deadline_s, list(Path("logs").iterdir())
    time.sleep(0.2)  # slurmpy does not wait for its jobs
assert result.read_text() == "42\n", result.read_text()
print("a job ran, and then one that depends on it")
