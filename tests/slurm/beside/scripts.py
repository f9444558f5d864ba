"""Sixty job scripts for a real Slurm and for Phalanx: what each asks, does and says is the same for both.

`lines` follow `#!/bin/bash`; `options` stand on sbatch's command line; `then` is typed once the job was submitted, with
its number in $JOB.
"""

from __future__ import annotations

from dataclasses import dataclass

ENV = "env | grep -E '^(SLURM|SBATCH)' | sort"
SAY = "echo $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_CPUS_ON_NODE $SLURM_JOB_NUM_NODES"

# Once the job has begun to run.
RUNS = "until squeue -h -j $JOB -o %T | grep -q RUNNING; do sleep 0.2; done; sleep 1"
TRAP = "trap 'echo caught; exit 9' USR1\nsleep 30 & wait $!"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    name: str
    lines: str
    options: str = ""
    then: str = ""
    head: str = "#!/bin/bash"


PLAIN = {
    "true": "true",
    "false": "false",
    "exit-3": "exit 3",
    "exit-255": "exit 255",
    "killed": "kill -9 $$",
    "terminated": "kill -15 $$",
    "aborted": "kill -6 $$",
    "output": "echo out; echo err >&2",
    "environment": ENV,
    "environment-of-two-tasks": f"#SBATCH -n2\n{ENV}",
    "environment-of-cpus": f"#SBATCH -n2 -c2\n{ENV}",
    "environment-per-node": f"#SBATCH -N1 --ntasks-per-node=3\n{ENV}",
    "environment-with-memory": f"#SBATCH --mem=100M\n{ENV}",
    "environment-with-memory-per-cpu": f"#SBATCH -n2 --mem-per-cpu=50M\n{ENV}",
    "environment-with-a-name": f"#SBATCH -J named -t 5 --comment=none\n{ENV}",
    "environment-of-an-array": f"#SBATCH -a 1,3,5\n{ENV}",
    "environment-of-a-step": "#SBATCH -n2\nsrun -n1 env | grep ^SLURM | sort",
    "environment-of-steps": "#SBATCH -n2\nsrun -l bash -c 'echo $SLURM_PROCID $SLURM_LOCALID' | sort",
    "name-by-directive": f"#SBATCH --job-name=a-name\n{SAY}",
    "directives-after-a-command": f"#SBATCH -n2\n{SAY}\n#SBATCH -n4",
    "directives-in-comments": f"# SBATCH -n4\n##SBATCH -n5\n#SBATCH -n2 # two of them\n{SAY}",
    "limit-in-words": f"#SBATCH --time=1-02:03:04\n{SAY}",
    "limit-of-minutes": f"#SBATCH -t 90\n{SAY}",
    "one-file-for-all": "#SBATCH -o all.txt\necho out; echo err >&2",
    "two-files": "#SBATCH -o out-%j.txt -e err-%j.txt\necho out; echo err >&2",
    "file-patterns": "#SBATCH -J pat -o %x-%u-%%-%5j.txt\necho out",
    "file-patterns-of-an-array": "#SBATCH -a 2-4 -o %A-%a.txt\necho $SLURM_ARRAY_TASK_ID",
    "appended": "#SBATCH -o all.txt --open-mode=append\necho more",
    "input": "#SBATCH -i job.sh\nhead -n 1",
    "another-folder": "#SBATCH -D /tmp\npwd",
    "array-with-steps": "#SBATCH -a 0-6:3\necho $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT",
    "array-throttled": "#SBATCH -a 1-3%1\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX",
    "array-that-fails": "#SBATCH -a 1-2\nexit $SLURM_ARRAY_TASK_ID",
    "steps": "srun echo one\nsrun echo two",
    "step-that-fails": "srun false\necho $?",
    "step-with-code": "srun bash -c 'exit 7'\necho $?",
    "step-of-three": "#SBATCH -n3\nsrun bash -c 'echo $SLURM_PROCID' | sort",
    "step-labelled": "#SBATCH -n3\nsrun -l echo x | sort",
    "step-with-input": "#SBATCH -n2\necho hello | srun cat",
    "step-with-files": "#SBATCH -n2\nsrun -o task-%t.txt bash -c 'echo $SLURM_PROCID'",
    "step-too-large": "#SBATCH -n1\nsrun -n2 true\necho $?",
    "step-of-many-programs": "#SBATCH -n2\n(echo 0 echo a; echo 1 echo b %t) > conf\nsrun --multi-prog conf | sort",
    "steps-beside": "#SBATCH -n2\nsrun -n1 --exact sleep 1 & srun -n1 --exact sleep 1 & wait\necho done",
    "step-killed": "srun bash -c 'kill -9 $$'\necho $?",
    "missing-program": "srun ./no-such-program\necho $?",
    "arguments": 'echo "$#: $1, $2"',
    "export-none": "#SBATCH --export=NONE\necho ${OURS:-none} $SLURM_JOB_NAME",
    "export-some": "#SBATCH --export=OURS,MORE=more\necho ${OURS:-none} $MORE",
    "export-all": "echo ${OURS:-none}",
    "long-output": "yes a line of text | head -n 20000",
    "odd-signs": "echo 'a \"b\" $c `d` \\e ü'",
    "hostname-of-the-job": "scontrol show hostnames $SLURM_JOB_NODELIST | wc -l",
    "nothing-said": ":",
}  # fmt: skip
MORE = [
    Script(name="python", head="#!/usr/bin/env python3", lines="import os\nprint(os.environ['SLURM_JOB_NAME'])"),
    Script(name="no-interpreter", head="#!/no/such/program", lines="true"),
    Script(name="held", lines="true", options="-H", then="scontrol release $JOB"),
    Script(name="cancelled", lines="sleep 100", then=f"{RUNS}; scancel $JOB"),
    Script(name="cancelled-while-held", lines="true", options="-H", then="scancel $JOB"),
    Script(name="signalled", lines=TRAP, then=f"{RUNS}; sleep 1; scancel -b -s USR1 $JOB"),
    Script(name="options-win", lines=f"#SBATCH -J script -n1\n{SAY}", options="-J line -n2"),
]  # fmt: skip
SCRIPTS = (*(Script(name=name, lines=lines) for name, lines in PLAIN.items()), *MORE)
