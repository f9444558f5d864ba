"""The environment variables that stand for options of srun (srun(1), INPUT ENVIRONMENT VARIABLES)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

# Variables that set options of a step, inside and outside of a job. Counts of tasks, CPUs and nodes are read where
# steps are laid out.
_OF_STEPS = {
    "SLURM_DISABLE_STATUS": "disable-status", "SLURM_EPILOG": "epilog", "SLURM_EXACT": "exact",
    "SLURM_EXPORT_ENV": "export", "SRUN_EXPORT_ENV": "export", "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit",
    "SLURM_LABELIO": "label", "SLURM_OPEN_MODE": "open-mode", "SLURM_OVERLAP": "overlap", "SLURM_PROLOG": "prolog",
    "SLURM_REMOTE_CWD": "chdir", "SLURM_WORKING_DIR": "chdir", "SLURM_STDERRMODE": "error", "SLURM_STDINMODE": "input",
    "SLURM_STDOUTMODE": "output", "SLURM_TASK_EPILOG": "task-epilog", "SLURM_TASK_PROLOG": "task-prolog",
    "SLURM_UNBUFFEREDIO": "unbuffered", "SLURM_WAIT": "wait", "SRUN_CPUS_PER_TASK": "cpus-per-task",
}  # fmt: skip
# Variables that set options of an allocation that srun makes itself. They are not read inside a job, where some of them
# describe the job.
_OF_ALLOCATIONS = {
    "SLURM_ACCOUNT": "account", "SLURM_CONSTRAINT": "constraint", "SLURM_DEPENDENCY": "dependency",
    "SLURM_EXCLUSIVE": "exclusive", "SLURM_GPUS": "gpus", "SLURM_GPUS_PER_NODE": "gpus-per-node",
    "SLURM_GPUS_PER_TASK": "gpus-per-task", "SLURM_GRES": "gres", "SLURM_HINT": "hint", "SLURM_JOB_NAME": "job-name",
    "SLURM_JOB_NUM_NODES": "nodes", "SLURM_MEM_PER_CPU": "mem-per-cpu", "SLURM_MEM_PER_NODE": "mem",
    "SLURM_NPROCS": "ntasks", "SLURM_NTASKS": "ntasks", "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_OVERCOMMIT": "overcommit", "SLURM_PARTITION": "partition", "SLURM_QOS": "qos",
    "SLURM_RESERVATION": "reservation", "SLURM_SIGNAL": "signal", "SLURM_THREADS": "threads",
    "SLURM_TIMELIMIT": "time", "SLURM_WCKEY": "wckey",
}  # fmt: skip
_FLAGS = {"disable-status", "exact", "label", "overcommit", "overlap", "unbuffered"}

_PRESERVED = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES")


def preserved(said: Mapping[str, str | None], environment: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a step; with --preserve-env, its sizes are those of `own`, the caller's."""
    if "preserve-env" not in said:
        return environment
    kept = {name: own[name] for name in _PRESERVED if name in own}
    return {name: text for name, text in environment.items() if name not in _PRESERVED} | kept


def with_variables(said: MutableMapping[str, str | None], around: Mapping[str, str]) -> None:
    """Add the options that environment variables set and the command line does not."""
    within = "jobid" in said or bool(around.get("SLURM_JOB_ID"))
    found: dict[str, str | None] = {}
    for name, option in (_OF_STEPS if within else {**_OF_STEPS, **_OF_ALLOCATIONS}).items():
        text = around.get(name)
        if text is None or (option in _FLAGS and text.lower() in ("no", "0")):
            continue
        found[option] = None if option in _FLAGS else text
    said.update({option: text for option, text in found.items() if option not in said})
