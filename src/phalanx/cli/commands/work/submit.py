"""`phalanx submit`: submit Jobs from files, or a Job made from a command."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import yaml
from cyclopts import Parameter

from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.work.run import follow as follow_job
from phalanx.cli.files.manifest import Document, is_job, job, queued, read_files
from phalanx.cli.files.rendezvous import has_rendezvous, service_of
from phalanx.cli.submission.arrays import tasks_of
from phalanx.cli.submission.job_options import JobOptions, WishOptions, given
from phalanx.cli.submission.sending import (
    create_document,
    not_known,
    queue_of,
    require_class,
    require_queues,
    too_large,
)
from phalanx.cli.terminal.output import note, print_json
from phalanx.client.connection import Connection, Object
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES

KEPT_S = 86400
_AT_ONCE = 32


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class FormOptions:
    """The options for the number of Jobs, and for waiting until the Job ends."""

    array: str = ""
    """Create a job for each of these numbers: 1-1000, 1,3,5, 0-31:4. With %20 at the end, at most 20 of the jobs run at
    the same time. The job of task 7 has the name NAME-7 (`phalanx logs NAME/7`), and the environment variable
    PHALANX_ARRAY_TASK_ID has the number."""

    follow: bool = False
    """Then wait for the Job, show its output and exit with its exit code, as `phalanx run` does. This needs exactly one
    Job."""


async def submit(
    *words: str,
    queue: Annotated[str | None, Parameter(alias="-q")] = None,
    options: JobOptions | None = None,
    wishes: WishOptions | None = None,
    space: Namespace | None = None,
    target: Target | None = None,
    form: FormOptions | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Submit Jobs and return at once. `phalanx jobs` shows their state.

    A script that begins with `#!` is submitted as a command. Its lines `#PHALANX --pods 4 --gpu 8` contain options.

    From files: if a Job lacks the fields that queue it (`suspend: true`, the scheduler name, the label with the queue),
    they are added. Options for the queue and the time replace the fields of the file. Other objects are created
    unchanged. From a command: a Job is created, as `phalanx run` does.

    For example:

        phalanx submit train.yaml
        phalanx submit server.yaml workers/ --queue research
        phalanx submit train.sh --epochs 3 --follow
        phalanx submit --array 1-1000%20 --name sweep -- sh -c 'python train.py --seed $PHALANX_ARRAY_TASK_ID'
        phalanx submit --name train --pods 4 --cpu 8 --gpu 1 --time-limit 8h -- torchrun train.py
        phalanx submit --name report --after train:ok -- python report.py
        phalanx submit --dry-run -- python train.py > train.yaml

    Parameters
    ----------
    words
        YAML or JSON files, or folders with such files (`-` is standard input); or, after two dashes, a command.
    queue
        The queue. [default: the queue in the file, else `default`]
    dry_run
        Create nothing. Print the objects that would be created, as YAML or, with --json, as JSON.
    json
        Print the created objects as JSON.
    """
    namespace, wishes, form = (space or Namespace()).namespace, wishes or WishOptions(), form or FormOptions()
    files, command = split(words, sys.argv)
    documents = _documents(files, command, queue, options or JobOptions(), namespace, form.array)
    objects = _ready(documents, queue, wishes, follow=form.follow)
    if dry_run:
        _print([each for _, obj in objects for each in _with_service(obj)], json)
        return 0
    async with connected(target) as connection:
        warnings = await _look(connection, objects, wishes, namespace)
        created = await _create_all(connection, objects, namespace, tell=not (json or form.follow))
        jobs = [obj for obj in created if is_job(obj)]
        for warning in (*warnings, *await too_large(connection, jobs)):
            note(f"warning: {warning}")
        if form.follow:
            return await follow_job(connection, jobs[0], json=json)
    if json:
        print_json(created)
    return 0


def _ready(
    documents: Sequence[Document], queue: str | None, wishes: WishOptions, *, follow: bool
) -> list[tuple[Document, Object]]:
    """Return each document with the object that will be created. Raises PhalanxError if an option for Jobs is given,
    but no document is a Job."""
    jobs = sum(is_job(each.obj) for each in documents)
    if (option := "--queue" if queue else given(wishes)) and not jobs:
        raise PhalanxError(f"{option} is an option for Jobs, but {documents[0].file} has no Job. Nothing was created.")
    if follow and jobs != 1:
        raise PhalanxError("--follow needs exactly one Job, but there are {jobs}. Nothing was created.")
    said = wishes.words(time.time())
    return [(document, queued(document, queue, said, wishes.priority)) for document in documents]


def _print(objects: Sequence[Object], json: bool) -> None:
    if json:
        print_json(objects)
    else:
        print(yaml.safe_dump_all(objects, sort_keys=False), end="")


def _with_service(obj: Object) -> list[Object]:
    """Return a list with the object. If it is a Job whose pods must find each other, the list also has their Service,
    as its first item."""
    return [service_of(obj), obj] if is_job(obj) and has_rendezvous(obj) else [obj]


def split(words: Sequence[str], line: Sequence[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the files and the command; usually one of them is empty. `line`: the whole command line; the command
    begins after its first `--`."""
    command = tuple(line[line.index("--") + 1 :]) if "--" in line else ()
    return tuple(Path(word) for word in words[: len(words) - len(command)]), command


def _documents(
    files: Sequence[Path],
    command: Sequence[str],
    queue: str | None,
    options: JobOptions,
    namespace: str,
    array: str,
) -> list[Document]:
    if files and command:
        raise PhalanxError(
            "files and a command cannot be submitted together: submit the files and the command separately"
        )
    if files and (option := "--array" if array else given(options)):
        raise PhalanxError(
            f"{option} is an option for commands; {files[0]} itself states what its pods request. Nothing was created."
        )
    if files:
        return read_files(files)
    if not command:
        raise PhalanxError("there is nothing to submit. Name files, or write a command after two dashes.")
    made = job(options.request(command, namespace, queue or "default", KEPT_S, is_array=bool(array)))
    return [Document(file="the command", obj=obj) for obj in (tasks_of(made, array) if array else [made])]


async def _look(
    connection: Connection, objects: Sequence[tuple[Document, Object]], wishes: WishOptions, namespace: str
) -> list[str]:
    """Return warnings about mistakes that may make the jobs wait. Raises PhalanxError if a job could never start."""
    queues = {obj["metadata"].get("name") for _, obj in objects if obj["kind"] == QUEUES.name}
    named = ((name, document.place()) for document, obj in objects if (name := queue_of(obj)))
    warnings = await require_queues(connection, [(name, where) for name, where in named if name not in queues])
    if wishes.priority:
        await require_class(connection, wishes.priority)
    return warnings + await not_known(connection, wishes.after, namespace)


async def _create_all(
    connection: Connection, objects: Sequence[tuple[Document, Object]], namespace: str, *, tell: bool
) -> list[Object]:
    """Create the objects in their order, and return them. Consecutive Jobs are created up to `_AT_ONCE` at a time. The
    name of an object is printed when all objects before it exist. So the output shows at which object an error
    occurred."""
    created: list[Object] = []
    for size, some in _batches(objects):
        made = await asyncio.gather(
            *(create_document(connection, document, obj, namespace) for document, obj in some), return_exceptions=True
        )
        for one in made:
            if isinstance(one, BaseException):
                if size > 1 and (beside := sum(isinstance(each, dict) for each in made)):
                    note(
                        f"of the {size} Jobs that were sent together, {beside} were created; `phalanx jobs` lists them"
                    )
                raise one
            created.append(one)
            if tell:
                _tell(one)
    return created


def _batches(objects: Sequence[tuple[Document, Object]]) -> Iterator[tuple[int, Sequence[tuple[Document, Object]]]]:
    """Yield the objects in order, as batches with their size: up to `_AT_ONCE` Jobs together, other objects one by
    one."""
    for jobs, group in groupby(objects, key=lambda each: is_job(each[1])):
        some = list(group)
        size = _AT_ONCE if jobs else 1
        for at in range(0, len(some), size):
            yield len(some[at : at + size]), some[at : at + size]


def _tell(obj: Object) -> None:
    meta: dict[str, Any] = obj["metadata"]
    where = f" in queue {name}" if obj["kind"] == "Job" and (name := queue_of(obj)) else ""
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    print(f"{obj['kind'].lower()} {place}{meta['name']} created{where}", flush=True)
