"""sbatch: submit a batch script."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.options import OptionReader, Usage, declare, say
from phalanx.slurm.submission.asked.forms import HINTS, check_forms, checking, named_cluster, read_files
from phalanx.slurm.submission.asked.request import SubmissionRequest, request
from phalanx.slurm.submission.asked.script import find, foreign, lines, read_script, wrapped
from phalanx.slurm.submission.creation import hardware, submit
from phalanx.slurm.submission.het import by_colons, in_lines, submit_het, together

OPTIONS = declare(
    "account,A= array,a= batch= begin,b= chdir,D= comment= constraint,C= container-image= container-mounts= "
    "contiguous cpus-per-task,c= deadline= dependency,d= error,e= exclude,x= exclusive=? export-file= export= "
    "get-user-env=? gid= gpus,G= gpus-per-node= gpus-per-task= gres= help,h hold,H ignore-pbs input,i= "
    "job-name,J= kill-on-invalid-dep= licenses,L= mem-per-cpu= mem= mincpus= nice=? no-requeue nodelist,w= "
    "nodes,N= ntasks,n= tasks-per-node|ntasks-per-node= open-mode= output,o= overcommit,O "
    "oversubscribe,s parsable partition,p= "
    "qos,q= quiet,Q requeue reservation= signal= test-only time,t= tmp= uid= usage verbose,v version,V wait,W "
    "wait-all-nodes= wrap= " + HINTS
)
ENVIRONMENT = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_EXPORT": "export", "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SBATCH_GRES": "gres",
    "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NO_REQUEUE": "no-requeue", "SBATCH_OPEN_MODE": "open-mode", "SBATCH_OUTPUT": "output",
    "SBATCH_ERROR": "error", "SBATCH_INPUT": "input", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos",
    "SBATCH_REQUEUE": "requeue", "SBATCH_RESERVATION": "reservation", "SBATCH_TIMELIMIT": "time",
    "SBATCH_WAIT": "wait", "SBATCH_WCKEY": "wckey", "SBATCH_DEBUG": "verbose", "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_SIGNAL": "signal",
    "SBATCH_ACCTG_FREQ": "acctg-freq", "SBATCH_BATCH": "batch", "SBATCH_CLUSTERS": "clusters",
    "SLURM_CLUSTERS": "clusters", "SBATCH_CORE_SPEC": "core-spec", "SBATCH_DELAY_BOOT": "delay-boot",
    "SBATCH_DISTRIBUTION": "distribution", "SBATCH_GET_USER_ENV": "get-user-env", "SBATCH_GPU_BIND": "gpu-bind",
    "SBATCH_GPU_FREQ": "gpu-freq", "SBATCH_GRES_FLAGS": "gres-flags", "SBATCH_HINT": "hint", "SLURM_HINT": "hint",
    "SBATCH_IGNORE_PBS": "ignore-pbs", "SBATCH_MEM_BIND": "mem-bind", "SBATCH_NETWORK": "network",
    "SBATCH_NO_KILL": "no-kill", "SBATCH_POWER": "power", "SBATCH_PROFILE": "profile",
    "SBATCH_SPREAD_JOB": "spread-job", "SBATCH_THREAD_SPEC": "thread-spec",
    "SBATCH_THREADS_PER_CORE": "threads-per-core", "SBATCH_USE_MIN_NODES": "use-min-nodes",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes",
}  # fmt: skip
_READER = OptionReader("sbatch", OPTIONS, mixed=False)
_LOOK_S = 0.2


def run(words: Sequence[str]) -> int:
    """Run sbatch, and return the exit code. Raises PhalanxError."""
    typed, arguments = by_colons(_READER, words, checking("sbatch"))
    options = {name: value for said in typed for name, value in said.items()}
    if "help" in options or "usage" in options:
        say(
            "Usage: sbatch [OPTIONS...] [executable [args...]]\n"
            + " ".join(f"--{one.name}" for one in OPTIONS if not one.refused)
        )
        return 0
    for one in typed:
        check_forms("sbatch", one)
    if options.get("gres") == "help":
        print("Valid gres options are:\ngpu[[:type]:count]")
        return 0
    script, text = _script(options, arguments)
    of_script = in_lines(_READER, list(lines(text)))
    if "ignore-pbs" not in options and "SBATCH_IGNORE_PBS" not in os.environ:
        of_script[0] |= foreign(text)  # #PBS and #BSUB lines override #SBATCH lines (measured with Slurm 22.05)
    for one in of_script:
        check_forms("sbatch", one)
    components = together(of_script, typed, _in_environment(os.environ))
    said = components[0]
    for one in components:
        read_files("sbatch", one)
    api = ApiClient.open()
    here = site.load(api)
    cluster = named_cluster("sbatch", said, here)
    line = " ".join(["sbatch", *words])
    if "test-only" in said:
        from phalanx.slurm.submission.expected import planned

        say(planned(api, here, lambda: [_request(api, here, one, script, arguments, line) for one in components]))
        return 0
    asked = [_request(api, here, one, script, arguments, line) for one in components]
    if len(asked) > 1:
        numbered = submit_het(api, here, asked, text, arguments[1:])
    else:
        numbered = submit(api, here, asked[0], text, arguments[1:])
    if "parsable" in said:
        if "quiet" not in said:
            print(f"{numbered[0]};{cluster}" if cluster else numbered[0], flush=True)
    elif "quiet" not in said:
        print(f"Submitted batch job {numbered[0]}{f' on cluster {cluster}' if cluster else ''}", flush=True)
    return _wait(api, numbered) if "wait" in said else 0


def _request(
    api: ApiClient,
    here: site.Site,
    said: dict[str, str | None],
    script: str | None,
    arguments: Sequence[str],
    line: str,
) -> SubmissionRequest:
    return request(said, here, hardware(api, here, said), script, list(arguments[1:]), line)


def _script(options: Mapping[str, str | None], arguments: Sequence[str]) -> tuple[str | None, str]:
    """Return the path and the text of the script. The path is None for --wrap and for standard input."""
    if "wrap" in options:
        if arguments:
            raise Usage("sbatch: error: Script arguments not permitted with --wrap option")
        return None, wrapped(options["wrap"] or "")
    if not arguments:
        return None, read_script(None)
    path = find(arguments[0], Path.cwd())
    if not Path(path).exists():
        raise Usage(f"sbatch: error: Unable to open file {arguments[0]}")
    return path, read_script(path)


def _in_environment(environment: Mapping[str, str]) -> dict[str, str | None]:
    return {option: environment[name] for name, option in ENVIRONMENT.items() if environment.get(name)}


def _wait(api: ApiClient, numbered: Sequence[int]) -> int:
    """Wait until all jobs have ended, and return the highest exit code."""
    from phalanx.slurm.jobs.ended import ending

    highest = 0
    for number in numbered:
        while (end := ending(api, number)) is None:
            time.sleep(_LOOK_S)  # poll: the job's object may be deleted, and the ledger cannot be watched
        highest = max(highest, end)
    sys.stdout.flush()
    return highest
