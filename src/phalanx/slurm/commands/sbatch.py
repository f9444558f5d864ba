"""sbatch: submit a script."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from phalanx.slurm import site
from phalanx.slurm.api import Api, Refused
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.notation.arrays import Array
from phalanx.slurm.options import Reader, Usage, declare, say
from phalanx.slurm.submission import dependency, manifest, numbers
from phalanx.slurm.submission.environment import variables
from phalanx.slurm.submission.request import Hardware, Request, fails, request, require_room
from phalanx.slurm.submission.script import find, lines, read_script, wrapped

OPTIONS = declare(
    "account,A= array,a= begin,b= chdir,D= comment= constraint,C= cpus-per-task,c= deadline= dependency,d= error,e= "
    "exclude,x= exclusive=? export= gpus,G= gpus-per-node= gpus-per-task= gres= help,h hold,H ignore-pbs input,i= "
    "job-name,J= mem= mem-per-cpu= mincpus= nice=? no-requeue requeue nodes,N= nodelist,w= ntasks,n= "
    "ntasks-per-node= open-mode= output,o= parsable partition,p= qos,q= quiet,Q reservation= test-only time,t= usage "
    "version,V wait,W wrap="
) + declare(
    "acctg-freq= bb= bbf= batch= burst-buffer= cluster-constraint= clusters,M= container= contiguous core-spec,S= "
    "cores-per-socket= cpu-freq= cpus-per-gpu= delay-boot= distribution,m= extra-node-info,B= get-user-env=? gid= "
    "gpu-bind= gpu-freq= gpus-per-socket= gres-flags= hint= kill-on-invalid-dep= licenses,L= mail-type= mail-user= "
    "mcs-label= mem-bind= mem-per-gpu= network= no-kill=? ntasks-per-core= ntasks-per-gpu= ntasks-per-socket= "
    "oversubscribe,s overcommit,O power= prefer= priority= profile= propagate=? reboot signal= sockets-per-node= "
    "spread-job switches= thread-spec= threads-per-core= time-min= tmp= tres-per-task= uid= use-min-nodes verbose,v "
    "wait-all-nodes= wckey= container-image= container-mounts=",
    refused=True,
)
ENVIRONMENT = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_EXPORT": "export", "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SBATCH_GRES": "gres",
    "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NO_REQUEUE": "no-requeue", "SBATCH_OPEN_MODE": "open-mode", "SBATCH_OUTPUT": "output",
    "SBATCH_ERROR": "error", "SBATCH_INPUT": "input", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos",
    "SBATCH_REQUEUE": "requeue", "SBATCH_RESERVATION": "reservation", "SBATCH_TIMELIMIT": "time",
    "SBATCH_WAIT": "wait",
}  # fmt: skip
_READER = Reader("sbatch", OPTIONS, mixed=False)


def run(words: Sequence[str]) -> int:
    """Exit code. Raises PhalanxError."""
    typed, arguments = _READER.read(words)
    options = dict(typed)
    if "help" in options or "usage" in options:
        say(
            "Usage: sbatch [OPTIONS...] [executable [args...]]\n"
            + " ".join(f"--{one.name}" for one in OPTIONS if not one.refused)
        )
        return 0
    script, text = _script(options, arguments)
    said = {**_in_script(text), **_in_environment(os.environ), **options}
    api = Api.open()
    here = site.load(api)
    name = said.get("partition")
    partition = here.partition(name) if name else here.default
    asked = request(said, here, _hardware(api, partition, said), script, arguments[1:], " ".join(["sbatch", *words]))
    if "test-only" in said:
        say("sbatch: the job would be accepted; Phalanx does not foretell here when it would start")
        return 0
    numbered = _submit(api, here, asked, text, arguments[1:])
    if "parsable" in said:
        if "quiet" not in said:
            print(numbered[0], flush=True)
    elif "quiet" not in said:
        print(f"Submitted batch job {numbered[0]}", flush=True)
    return _wait(api, numbered) if "wait" in said else 0


def _script(options: Mapping[str, str | None], arguments: Sequence[str]) -> tuple[str | None, str]:
    """Its path, if it has one, and its text."""
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


def _in_script(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for words in lines(text):
        options, _ = _READER.read(words)
        found |= dict(options)
    return found


def _in_environment(environment: Mapping[str, str]) -> dict[str, str | None]:
    return {option: environment[name] for name, option in ENVIRONMENT.items() if environment.get(name)}


def _hardware(api: Api, partition: site.Partition | None, said: Mapping[str, str | None]) -> Hardware:
    """The largest node that the job may have."""
    from phalanx.slurm.jobs.nodes import nodes

    names = set(partition.nodes) if partition is not None else set()
    found = [node for node in nodes(api) if not names or node.name in names]
    if not found:
        return Hardware(cpus=1 << 20, memory_mib=1 << 40, gpus=1 << 20, nodes=1)
    return Hardware(
        cpus=max(node.cpus for node in found),
        memory_mib=max(node.memory_mib for node in found),
        gpus=max(node.gpus for node in found),
        nodes=len(found),
    )


def _submit(api: Api, here: site.Site, asked: Request, script: str, args: list[str]) -> list[int]:
    """The numbers of its jobs: one, or one for each task, of which the first is the array's."""
    needs = _dependency(api, asked, None)
    count = len(asked.array.tasks) if asked.array is not None else 1
    first = numbers.take(api, count, here.first_job)
    # The array's own number is its last task's, as in Slurm: the tasks before it get the numbers that follow.
    given = [first] if asked.array is None else [*range(first + 1, first + count), first]
    for at, number in enumerate(given):
        ask = asked.ask
        if asked.array is not None:
            ask = _task(ask, asked.array, first, at)
            needs = _dependency(api, asked, ask.task) if "aftercorr" in (asked.said.get("dependency") or "") else needs
        ask.dependency = needs.shown
        _create(api, here, number, ask, asked, needs, script, args)
    return [first, *(number for number in given if number != first)]


def _task(ask: Ask, array: Array, first: int, at: int) -> Ask:
    import msgspec

    spans = f"{array.tasks[0]}-{array.tasks[-1]}"
    return msgspec.structs.replace(ask, array=first, task=array.tasks[at], throttle=array.throttle, tasks_of=spans)


def _dependency(api: Api, asked: Request, task: int | None) -> dependency.Needs:
    try:
        return dependency.read(api, asked.said.get("dependency") or "", task)
    except dependency.DependencyError as error:
        raise fails(str(error)) from None


def _create(
    api: Api,
    here: site.Site,
    number: int,
    ask: Ask,
    asked: Request,
    needs: dependency.Needs,
    script: str,
    args: list[str],
) -> None:
    environment = {**asked.environment, **variables(number, ask, here, asked.said, script, asked.array)}
    require_room(environment)
    words = scheduling_words(ask, needs)
    job = manifest.job(number, ask, here, words, args, manifest.default_image())
    secret = api.create(manifest.SECRETS, manifest.secret(number, ask, environment))
    try:
        made = api.create(manifest.JOBS, job)
    except Refused as error:
        api.delete(f"{manifest.SECRETS}/{secret['metadata']['name']}")
        raise fails(error.message) from None
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
    api.patch(f"{manifest.SECRETS}/{secret['metadata']['name']}", {"metadata": {"ownerReferences": [owner]}})


def scheduling_words(ask: Ask, needs: dependency.Needs) -> dict[str, str]:
    """What the scheduler reads."""
    found = {
        "time-limit": f"{ask.limit_min * 60}s" if ask.limit_min is not None else "",
        "hold": ask.hold,
        "begin": _moment(ask.begin_s),
        "deadline": _moment(ask.deadline_s),
        "after": needs.after,
        "after-any": "true" if needs.either else "",
        "singleton": ask.name if needs.singleton else "",
        "array": manifest.name_of(ask.array) if ask.array is not None and ask.throttle else "",
        "array-cap": str(ask.throttle) if ask.throttle else "",
        "nice": str(ask.nice) if ask.nice else "",
        "qos": ask.qos,
        "reservation": ask.reservation,
    }
    return {f"phalanx.dev/{name}": text for name, text in found.items() if text}


def _moment(at_s: float | None) -> str:
    return "" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _wait(api: Api, numbered: Sequence[int]) -> int:
    """Until all have ended; the highest exit code."""
    from phalanx.slurm.jobs.ended import ending

    highest = 0
    for number in numbered:
        while (end := ending(api, number)) is None:
            time.sleep(0.2)
        highest = max(highest, end)
    sys.stdout.flush()
    return highest
