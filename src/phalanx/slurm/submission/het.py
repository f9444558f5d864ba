"""Create heterogeneous jobs: several components with different requests, which all start at the same time.

Each component is a Job with its own job number. All components form one gang (`phalanx.dev/job`). The script runs in
the first component. The pods of the other components only run steps, and end when the first component ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from phalanx.slurm.cluster.api import SECRETS, ApiClient, Object
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.names import name_of
from phalanx.slurm.notation.amounts import per_node
from phalanx.slurm.options import OptionReader, Usage
from phalanx.slurm.submission import manifest, numbers
from phalanx.slurm.submission.asked.request import SubmissionRequest, require_room
from phalanx.slurm.submission.asked.size import fails
from phalanx.slurm.submission.creation import (
    create_all,
    daemon,
    give,
    needs_of,
    require_allowed,
    require_reservation,
    scheduling_words,
)
from phalanx.slurm.submission.environment import variables

Said = dict[str, str | None]
# The other components inherit these options from the first component (measured with Slurm 22.05).
_SHARED = (
    "account", "begin", "chdir", "comment", "deadline", "dependency", "export", "gid", "hold", "job-name", "mail-type",
    "mail-user", "nice", "no-requeue", "open-mode", "qos", "requeue", "reservation", "time", "time-min", "uid", "wckey",
)  # fmt: skip
FOLLOWS = "PHALANX_FOLLOWS"  # variable of all components except the first: the job number of the first component


def by_colons(
    reader: OptionReader,
    words: Sequence[str],
    check: Callable[[Sequence[tuple[str, str | None]]], None] | None = None,
) -> tuple[list[Said], list[str]]:
    """Return the options of each component in a command line such as `OPTIONS : OPTIONS SCRIPT ARGUMENTS`, and the
    arguments. `check`: a function that is called after each option with all options so far. Raises Usage."""
    found: list[Said] = []
    rest = list(words)
    while True:
        typed, rest = reader.read(rest, check)
        found.append(dict(typed))
        if not rest or rest[0] != ":":
            return found, rest
        rest = rest[1:]


def in_lines(reader: OptionReader, lines: Sequence[Sequence[str]]) -> list[Said]:
    """Return the options of each component in the #SBATCH lines of a script. The line `#SBATCH hetjob` begins the next
    component. `lines`: the words of each line. Raises Usage."""
    found: list[Said] = [{}]
    for words in lines:
        typed, arguments = reader.read(words)
        if arguments[:1] in (["hetjob"], ["packjob"]):
            found.append({})
        found[-1] |= dict(typed)
    return found


def together(of_script: Sequence[Said], typed: Sequence[Said], around: Mapping[str, str | None]) -> list[Said]:
    """Return the options of each component. Options of the command line (`typed`) override those of the environment
    (`around`), which override those of the script (`of_script`). The other components inherit some options from the
    first one."""
    found: list[Said] = []
    for at in range(max(len(of_script), len(typed))):
        said = {
            **(of_script[at] if at < len(of_script) else {}),
            **(around if at == 0 else {}),
            **(typed[at] if at < len(typed) else {}),
        }
        first = found[0] if found else {}
        found.append({**{name: first[name] for name in _SHARED if name in first}, **said})
    wrap = next((said["wrap"] for said in typed if "wrap" in said), None)
    for said in found:
        said.pop("wrap", None)
    if wrap is not None:
        found[0]["wrap"] = wrap
    return found


def submit_het(
    api: ApiClient, here: Site, asked: Sequence[SubmissionRequest], script: str, args: list[str]
) -> list[int]:
    """Create the objects of a heterogeneous job, and return the job numbers of its components. `asked`: the request of
    each component. Raises Usage."""
    if any(one.array is not None for one in asked):
        raise fails("Invalid job array specification")
    images = images_of(asked)
    for one in asked:
        require_reservation(api, one.ask)
        require_allowed(api, here, one.ask, len(asked))
    needs = needs_of(api, asked[0], None)
    first = numbers.take(api, len(asked), here.first_job)
    key = os.urandom(32).hex()
    for at, one in enumerate(asked):
        one.ask.het, one.ask.het_offset, one.ask.het_size = first, at, len(asked)
        one.ask.dependency = needs.shown
    groups = of_groups(first, [one.ask for one in asked])
    # All components get the same annotations, because the members of a gang must agree.
    words = scheduling_words(asked[0].ask, needs)
    made: list[Object] = []
    owners: list[Object] = []
    try:
        for at, (one, image) in enumerate(zip(asked, images, strict=True)):
            number = first + at
            around = {**one.environment, **variables(number, one.ask, here, one.said, script if at == 0 else "", None)}
            around |= {**groups, **daemon(here, image, key)}
            around |= {FOLLOWS: str(first)} if at else {}
            require_room(around)
            made.append(api.create(SECRETS, manifest.secret(number, one.ask, around)))
        names = [name_of(first + at, one.ask) for at, one in enumerate(asked)]
        account = give(api, names, made) if manifest.HOST not in images and here.tools else ""
        jobs = [
            manifest.job(first + at, one.ask, here, words, args, image, account=account)
            for at, (one, image) in enumerate(zip(asked, images, strict=True))
        ]
        create_all(api, jobs, owners)
    finally:
        for at, secret in enumerate(made):
            path = f"{SECRETS}/{secret['metadata']['name']}"
            if at < len(owners):
                api.patch(path, {"metadata": {"ownerReferences": [owners[at]]}})
            else:
                api.delete(path)
    return [first + at for at in range(len(asked))]


def images_of(asked: Sequence[SubmissionRequest]) -> list[str]:
    """Return the image of each component: the image in its options, or else the image of the first component. Raises
    Usage if only some components have the image `host`."""
    first = asked[0].ask.image or manifest.default_image()
    found = [one.ask.image or first for one in asked]
    if manifest.HOST in found and len(set(found)) > 1:
        raise Usage(
            f"sbatch: error: Phalanx does not support components with the image {manifest.HOST} and others in one job: "
            "give each component a --container-image, or none (docs/guide/slurm.md)"
        )
    return found


def of_groups(first: int, asks: Sequence[Ask]) -> dict[str, str]:
    """Return the environment variables about all components, which each component gets. Each variable is set under its
    new and its old name in Slurm (HET and PACK). `first`: the job number of the first component."""
    found = {"SLURM_HET_SIZE": str(len(asks)), "SLURM_PACK_SIZE": str(len(asks))}
    for at, ask in enumerate(asks):
        own = {
            "JOB_ID": str(first + at), "JOB_ACCOUNT": ask.account, "JOB_CPUS_PER_NODE": per_node(ask.cpus_of_nodes),
            "JOB_NAME": ask.name, "JOB_NUM_NODES": str(ask.node_count), "JOB_PARTITION": ask.partition,
            "JOB_QOS": ask.qos, "NTASKS": str(ask.tasks), "NPROCS": str(ask.tasks),
            "TASKS_PER_NODE": per_node(ask.shares),
        }  # fmt: skip
        if ask.memory_mib:
            own["MEM_PER_CPU" if ask.per_cpu else "MEM_PER_NODE"] = str(ask.memory_mib)
        found |= grouped(at, own)
    return found


def grouped(at: int, own: Mapping[str, str]) -> dict[str, str]:
    return {f"SLURM_{name}_{kind}_GROUP_{at}": text for name, text in own.items() for kind in ("HET", "PACK")}
