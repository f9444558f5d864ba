"""What a user of ReFrame writes for a Slurm cluster: nothing here knows Phalanx."""

import json
import subprocess
import sys
from pathlib import Path

import reframe
from reframe.core.builtins import sanity_function
from reframe.utility import sanity

SITE = {
    "systems": [
        {
            "name": "cluster",
            "hostnames": [".*"],
            "partitions": [
                {"name": name, "scheduler": name, "launcher": "srun", "access": ["-p batch"], "environs": ["plain"]}
                for name in ("slurm", "squeue")
            ],
        }
    ],
    "environments": [{"name": "plain"}],
}


@reframe.simple_test
class TwoTasks(reframe.RunOnlyRegressionTest):
    valid_systems = ["*"]  # noqa: RUF012 - ReFrame takes it
    valid_prog_environs = ["*"]  # noqa: RUF012 - ReFrame takes it
    executable = "echo"
    executable_opts = ["task of $SLURM_JOB_ID"]  # noqa: RUF012 - ReFrame takes it
    num_tasks = 2
    time_limit = "2m"

    @sanity_function
    def both_spoke(self) -> object:
        return sanity.assert_eq(sanity.count(sanity.findall(r"task of \d+", self.stdout)), 2)


if __name__ == "__main__":
    Path("site.json").write_text(json.dumps(SITE))
    reframe_itself = Path(sys.executable).with_name("reframe")
    words = [reframe_itself, "-C", "site.json", "-c", __file__, "--prefix=out", "--report-file=report.json", "-r"]
    said = subprocess.run(words, text=True, capture_output=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "Ran 2/2 test case(s)" in said.stdout, said.stdout
    print("two checks of two tasks each passed, by ReFrame's slurm and squeue back-ends")
