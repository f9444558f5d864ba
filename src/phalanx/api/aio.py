"""The functions of Phalanx's Python interface as coroutines, for example `await phalanx.aio.jobs()`.
`phalanx.api.blocking` has the same functions without `await`.

The name of a job may have any form that the `phalanx` commands accept: NAME, NAMESPACE/NAME, KIND/NAME, ARRAY/INDEX, or
the `id` of a `Job`. The functions use the same cluster as the `phalanx` commands, unless `kubeconfig` or `context`
names another one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from phalanx.api.cluster import HERE, Cluster, Name
from phalanx.api.simulation import run_simulations
from phalanx.api.values import Explanation, Job, Queue, Result, Simulated, Table
from phalanx.cli.cluster.jobs.output import Followed, LogWishes, read_lines
from phalanx.cli.cluster.jobs.standing import RUNNING, recorded_standing
from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.commands.attend.logs import log_sources
from phalanx.cli.files.manifest import Document, job, queued
from phalanx.cli.submission.job_options import JobOptions, WishOptions
from phalanx.cli.submission.sending import create_document, require_queues
from phalanx.cli.views import entry_view, queue_view
from phalanx.cli.views.job import job_view, reading
from phalanx.cli.views.job.explanation import explained, not_scheduled

_KEPT_S = 86400


async def submit(
    command: Sequence[str],
    *,
    name: str = "",
    pods: int = 1,
    cpu: str | int = 1,
    memory: str = "",
    gpu: int = 0,
    image: str = "host",
    env: Mapping[str, str] | None = None,
    queue: str = "default",
    time_limit: str = "",
    after: Sequence[Name] = (),
    hold: bool = False,
    cluster: Cluster = HERE,
) -> Job:
    """Submit a job that runs `command` in each of its pods, and return at once. The command is not passed to a shell.

    `memory`: a quantity such as 16Gi. `time_limit`: a duration such as 30m or 8h. `after`: jobs that must succeed
    before this job starts. Raises PhalanxError if the job is invalid; then nothing is created."""
    options = JobOptions(
        name=name or None,
        pods=pods,
        cpu=str(cpu),
        memory=memory,
        gpu=gpu,
        image=image,
        env=tuple(f"{key}={value}" for key, value in (env or {}).items()),
    )
    awaited = tuple(one.id if isinstance(one, Job) else one for one in after)
    wishes = WishOptions(time_limit=time_limit, after=awaited, hold=hold)
    namespace = cluster.own_namespace
    document = Document(file="the command", obj=job(options.request(command, namespace, queue, _KEPT_S)))
    manifest = queued(document, queue, wishes.words(time.time()))
    async with cluster.connected() as connection:
        await require_queues(connection, [(queue, "queue")])
        meta = (await create_document(connection, document, manifest, namespace))["metadata"]
    return Job(
        namespace=meta["namespace"], name=meta["name"], kind="Job", queue=queue, state="queued", pods=pods, placed=0
    )


async def wait(name: Name, *, running: bool = False, timeout_s: float | None = None, cluster: Cluster = HERE) -> Result:
    """Wait until a job has ended, and return how it ended. `running`: True to return as soon as the job runs. Raises
    TimeoutError after `timeout_s` seconds."""
    async with asyncio.timeout(timeout_s), cluster.connected() as connection:
        found = await cluster.find(connection, name)
        if found.entry is not None:
            end = recorded_standing(found.entry)
            return Result(job=found.id, state=end.state, exit_code=end.exit_code, why=end.why)
        async with Followed(connection, found) as followed:
            while not (followed.standing.over or (running and followed.standing.state == RUNNING)):
                await followed.change()
            end = followed.standing
    return Result(job=found.id, state=end.state, exit_code=end.exit_code, why=end.why)


async def logs(name: Name, *, tail: int | None = None, previous: bool = False, cluster: Cluster = HERE) -> str:
    """Return the output of a job. If it has several pods, each line begins with the pod's index. The output of a
    deleted pod is included if the pod's node still stores it. `previous`: True to return the output of the attempt
    before the latest one."""
    async with cluster.connected() as connection:
        found = await cluster.find(connection, name)
        sources = await log_sources(connection, found, "", previous)
        labelled = len({(source.uid, source.container) for source in sources}) > 1
        lines = [
            f"[{source.label}] {text}\n" if labelled else f"{text}\n"
            async for _, source, text in read_lines(connection, sources, LogWishes(tail=tail))
        ]
    return "".join(lines)


async def explain(name: Name, *, cluster: Cluster = HERE) -> Explanation:
    """Return the page of `phalanx explain`: why a job is pending, where it runs, or how it ended."""
    ledger = cluster.ledger
    async with cluster.connected() as connection:
        found = await cluster.find(connection, name)
        if found.entry is not None:
            now_s = time.time()
            text = entry_view.page(found.entry, now_s)
            return Explanation(job=found.id, text=text, record=entry_view.record(found.entry, now_s))
        told = await explained(connection, found, ledger)
    if told is None:
        raise not_scheduled(found)
    return Explanation(job=found.id, text=told.text, record=told.record)


async def jobs(*, finished: bool = False, every_namespace: bool = False, cluster: Cluster = HERE) -> Table[Job]:
    """Return the pending and running jobs, in the order of `phalanx jobs`. `finished`: True to include jobs that have
    ended. `every_namespace`: True for the jobs of all namespaces."""
    namespace = "" if every_namespace else cluster.own_namespace
    async with cluster.connected() as connection:
        snapshot = await look(connection, namespace)
    return Table([_job(view) for view in reading.views(snapshot, namespace, finished=finished)])


async def queues(*, cluster: Cluster = HERE) -> Table[Queue]:
    """Return the tree of queues, parents before their children."""
    async with cluster.connected() as connection:
        records = [view.record() for view in queue_view.views(await look(connection))]
    return Table(
        [
            Queue(
                name=record["queue"],
                parent=record["parent"],
                state=record["state"],
                running=record["running"],
                pending=record["pending"],
                share=record["share"],
                record=record,
            )
            for record in records
        ]
    )


async def simulate(
    trace: str | Path,
    *,
    policies: Sequence[str] = ("easy",),
    estimates: Sequence[str] = ("user",),
    first: int | None = None,
    cluster: str = "",
    seed: int = 0,
) -> Table[Simulated]:
    """Simulate a log or a workload file under each policy, and return the measures of each simulation.

    `trace`: the log or the workload file. `policies`: names of built-in policies, or files. `first`: the number of jobs
    to simulate; None: all. `cluster`: the size of the cluster, such as 128x8, if the log does not contain it. Raises
    PhalanxError."""
    return await asyncio.to_thread(
        run_simulations, Path(trace), tuple(policies), tuple(estimates), first, cluster, seed
    )


def _job(view: job_view.JobView) -> Job:
    return Job(
        namespace=view.namespace,
        name=view.name,
        kind=view.kind,
        queue=view.queue,
        state=view.state,
        pods=view.wanted,
        placed=view.placed,
        reason=view.reason.text if view.reason is not None else "",
        message=view.message,
        record=view.record(),
    )
