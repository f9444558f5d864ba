"""salloc: create an allocation, run a command, and release the allocation when the command ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from phalanx.slurm.jobs.ask import ALLOCATION
from phalanx.slurm.jobs.steps.pods.channel import Broken
from phalanx.slurm.options import OptionReader, Usage, declare, say
from phalanx.slurm.submission.asked.forms import HINTS, checking
from phalanx.slurm.submission.environment import allocated
from phalanx.slurm.submission.het import by_colons
from phalanx.slurm.submission.interactive import Granted, finish, grant

OPTIONS = declare(
    "account,A= begin,b= bell chdir,D= comment= constraint,C= contiguous cpus-per-task,c= deadline= "
    "dependency,d= exclude,x= exclusive=? get-user-env=? gid= gpus,G= gpus-per-node= gpus-per-task= gres= help,h "
    "hold,H immediate,I=? job-name,J= kill-command,K=? kill-on-invalid-dep= licenses,L= mem-per-cpu= mem= "
    "mincpus= nice=? no-bell no-shell nodelist,w= nodes,N= ntasks,n= tasks-per-node|ntasks-per-node= overcommit,O "
    "oversubscribe,s partition,p= qos,q= quiet,Q reservation= signal= time,t= tmp= uid= usage verbose,v "
    "version,V wait-all-nodes= " + HINTS
) + declare("x11=?", refused=True)
_READER = OptionReader("salloc", OPTIONS, mixed=False)
_ENVIRONMENT = {
    "SALLOC_ACCOUNT": "account", "SALLOC_PARTITION": "partition", "SALLOC_QOS": "qos", "SALLOC_TIMELIMIT": "time",
    "SALLOC_CONSTRAINT": "constraint", "SALLOC_EXCLUSIVE": "exclusive", "SALLOC_GPUS": "gpus",
    "SALLOC_GRES": "gres", "SALLOC_MEM_PER_CPU": "mem-per-cpu", "SALLOC_MEM_PER_NODE": "mem",
    "SALLOC_RESERVATION": "reservation", "SALLOC_IMMEDIATE": "immediate", "SALLOC_ACCTG_FREQ": "acctg-freq",
    "SALLOC_BELL": "bell", "SALLOC_CLUSTERS": "clusters", "SLURM_CLUSTERS": "clusters", "SALLOC_DEBUG": "verbose",
    "SALLOC_DELAY_BOOT": "delay-boot", "SALLOC_GPUS_PER_NODE": "gpus-per-node", "SALLOC_CORE_SPEC": "core-spec",
    "SALLOC_GPUS_PER_TASK": "gpus-per-task", "SALLOC_GPU_BIND": "gpu-bind", "SALLOC_GPU_FREQ": "gpu-freq",
    "SALLOC_GRES_FLAGS": "gres-flags", "SALLOC_HINT": "hint", "SLURM_HINT": "hint", "SALLOC_KILL_CMD": "kill-command",
    "SALLOC_MEM_BIND": "mem-bind", "SALLOC_MEM_PER_GPU": "mem-per-gpu", "SALLOC_CPUS_PER_GPU": "cpus-per-gpu",
    "SALLOC_NETWORK": "network", "SALLOC_NO_BELL": "no-bell", "SALLOC_OVERCOMMIT": "overcommit",
    "SALLOC_POWER": "power", "SALLOC_PROFILE": "profile", "SALLOC_SIGNAL": "signal", "SALLOC_SPREAD_JOB": "spread-job",
    "SALLOC_THREADS_PER_CORE": "threads-per-core", "SALLOC_THREAD_SPEC": "thread-spec", "SALLOC_WCKEY": "wckey",
    "SALLOC_USE_MIN_NODES": "use-min-nodes", "SALLOC_WAIT_ALL_NODES": "wait-all-nodes",
}  # fmt: skip


def run(words: Sequence[str]) -> int:
    """Run salloc, and return the exit code of its command."""
    typed, command = by_colons(_READER, words, checking("salloc"))
    around = {option: os.environ[name] for name, option in _ENVIRONMENT.items() if os.environ.get(name)}
    said: dict[str, str | None] = {**around, **typed[0]}
    if "help" in said or "usage" in said:
        say("Usage: salloc [OPTIONS...] [command [args...]]\n" + " ".join(f"--{one.name}" for one in OPTIONS))
        return 0
    granted = grant(
        "salloc", ALLOCATION, [said, *typed[1:]], said.get("job-name") or "interactive", " ".join(["salloc", *words])
    )
    if "no-shell" in said:
        return 0
    code = 1
    try:
        code = _command(granted, said, command)
    finally:
        number = granted.place.number
        if granted.hold is not None and not _lost.is_set():
            if "quiet" not in said:
                say(f"salloc: Relinquishing job allocation {number}")
            finish(granted, code)
    return code


_lost = threading.Event()


def _command(granted: Granted, said: Mapping[str, str | None], command: Sequence[str]) -> int:
    argv = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    if shutil.which(argv[0]) is None:
        say(f'salloc: error: _fork_command: Unable to find command "{argv[0]}"')
        return 1
    around = {**os.environ, **_variables(granted, said)}
    sys.stdout.flush()
    # The terminal sends SIGINT to the command as well, and the command may handle it. salloc waits until the command
    # ends.
    before = {number: signal.signal(number, _pass) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        process = subprocess.Popen(argv, env=around, cwd=said.get("chdir") or None)
    except OSError as error:
        raise Usage(f"salloc: error: {argv[0]}: {error.strerror}") from None
    threading.Thread(target=_watch, args=(granted, process), daemon=True).start()
    code = process.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _variables(granted: Granted, said: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment variables of the allocation. A heterogeneous job has variables for each component, and
    only a few variables for the whole job (measured with Slurm 22.05)."""
    place, groups = granted.place, granted.groups
    own = allocated(place.number, place.ask, granted.site.cluster, place.nodes, said)
    if not groups:
        return own
    tasks = str(sum(int(groups[f"SLURM_NTASKS_HET_GROUP_{at}"]) for at in range(int(groups["SLURM_HET_SIZE"]))))
    whole = ("SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_JOB_ID", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST")
    return {**{name: own[name] for name in whole}, **groups, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks}


def _pass(number: int, frame: object) -> None:
    """Do nothing. salloc uses this handler instead of SIG_IGN, because a child process inherits SIG_IGN."""


def _watch(granted: Granted, process: subprocess.Popen[bytes]) -> None:
    """Wait until the connection that keeps the allocation ends. If the command still runs then, the allocation was
    revoked: send SIGHUP to the command."""
    assert granted.hold is not None
    try:
        granted.hold.receive()
    except (Broken, OSError):
        if process.poll() is None:
            _lost.set()
            say(f"salloc: Job allocation {granted.place.number} has been revoked.")
            process.send_signal(signal.SIGHUP)
