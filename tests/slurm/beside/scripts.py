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
RELEASE = "scontrol release $JOB"
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
    "environment-of-a-step-with-cpus": "#SBATCH -n2 -c2\nsrun -n1 -c2 env | grep ^SLURM | sort",
    "environment-of-a-distribution": "#SBATCH -n4\nsrun -m cyclic -n2 env | grep ^SLURM_ | grep -v PID | sort | uniq",
    "environment-of-overcommitment": f"#SBATCH -n1 -O\n{ENV}",
    "environment-exclusive": f"#SBATCH --exclusive\n{ENV}",
    "environment-of-a-range": f"#SBATCH -N1-1 -n3\n{ENV}",
    "environment-with-min-cpus": f"#SBATCH --mincpus=4\n{ENV}",
    "steps-with-names": "#SBATCH -n2\nsrun -J first -n1 true\nsrun -J second -n2 false\ntrue",
    "step-overlapping": "#SBATCH -n2\nsrun -n2 sleep 2 &\nsrun --overlap -n1 echo over\nwait",
    "step-that-is-killed-for-one": "#SBATCH -n2\nsrun -K bash -c '[ $SLURM_PROCID = 0 ] && exit 5; sleep 60'\necho $?",
    "step-chdir": "srun -D /tmp pwd",
    "step-unknown-program": "srun no-such-program\necho $?",
    "step-not-executable": "touch plain\nsrun ./plain\necho $?",
    "step-to-nowhere": "srun -o /no/such/dir/x true\necho $?",
    "step-exports-nothing": "export A=1\nsrun --export=NONE bash -c 'echo ${A:-none} ${SLURM_JOB_NAME}'",
    "step-exports-one": "export A=1 B=2\nsrun --export=A,C=3 bash -c 'echo ${A:-none} ${B:-none} ${C:-none}'",
    "step-input-none": "echo hello | srun -i none wc -c",
    "step-input-of-one-task": "#SBATCH -n2\necho hello | srun -i 1 -l wc -c | sort",
    "trap-at-exit": "trap 'echo bye' EXIT\nexit 4",
    "job-in-background": "sleep 1 & echo started; wait; echo done",
    "unicode-name": "#SBATCH -J nämé\necho $SLURM_JOB_NAME",
    "name-with-blank": "#SBATCH -J 'two words'\necho $SLURM_JOB_NAME",
    "comment-and-more": f"#SBATCH --comment='two words' --begin=now --nice=5\n{SAY}",
    "many-steps": "for i in 1 2 3 4 5; do srun -n1 true; done",
    "last-step-fails": "srun true\nsrun bash -c 'exit 9'",
    "script-ends-well-after-a-step-that-fails": "srun bash -c 'exit 9'\ntrue",
    "subshell-exit": "(exit 6)",
    "exit-256": "exit 256",
    "pipefail": "set -o pipefail\nfalse | true",
    "no-such-command": "no-such-command-at-all",
    "segfault": "kill -SEGV $$",
    "heredoc": "cat <<'X'\n$HOME #SBATCH -n9\nX\necho $SLURM_NTASKS",
    "long-options-with-blanks": f"#SBATCH --ntasks 2 --job-name  spaced\n{SAY}",
    "comment-after-options": f"#SBATCH -n1 #-n2\n{SAY}",
}  # fmt: skip
MORE = [
    Script(name="python", head="#!/usr/bin/env python3", lines="import os\nprint(os.environ['SLURM_JOB_NAME'])"),
    Script(name="no-interpreter", head="#!/no/such/program", lines="true"),
    Script(name="held", lines="true", options="-H", then="scontrol release $JOB"),
    Script(name="cancelled", lines="sleep 100", then=f"{RUNS}; scancel $JOB"),
    Script(name="cancelled-while-held", lines="true", options="-H", then="scancel $JOB"),
    Script(name="signalled", lines=TRAP, then=f"{RUNS}; sleep 1; scancel -b -s USR1 $JOB"),
    Script(name="not-requeued", lines="echo $SLURM_RESTART_COUNT", options="-H --no-requeue", then=RELEASE),
    Script(name="less-nice", lines="true", options="-H", then=f"scontrol update job=$JOB nice=3; {RELEASE}"),
    Script(name="renamed", lines=SAY, options="-H", then=f"scontrol update job=$JOB name=other; {RELEASE}"),
    Script(name="signalled-steps", lines="srun bash -c 'trap \"echo got; exit 3\" USR1; sleep 30 & wait'\necho $?",
           then=f"{RUNS}; sleep 1; scancel -s USR1 $JOB"),
    Script(name="terminated-and-caught", lines=TRAP.replace("USR1", "TERM"), then=f"{RUNS}; sleep 1; scancel $JOB"),
    Script(name="array-cancelled-in-part", lines="sleep 2", options="-a 1-2 -H",
           then="scancel ${JOB}_2; scontrol release $JOB"),
    Script(name="signal-before-the-limit", lines=TRAP, options="-t 1 --signal=B:USR1@58"),
    Script(name="shell", head="#!/bin/sh -e", lines="false\necho not reached"),
    Script(name="env-interpreter-with-arguments", head="#!/usr/bin/env -S bash -x", lines="echo x"),
    Script(name="options-win", lines=f"#SBATCH -J script -n1\n{SAY}", options="-J line -n2"),
]  # fmt: skip
SCRIPTS = (*(Script(name=name, lines=lines) for name, lines in PLAIN.items()), *MORE)
