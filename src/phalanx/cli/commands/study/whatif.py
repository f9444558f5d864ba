"""`phalanx whatif`: forecast the scheduler's decisions with and without changes to the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.live_state.look import look
from phalanx.cli.cluster.target import Namespace, Target, connected, find_ledger_of
from phalanx.cli.files.manifest import read_files
from phalanx.cli.files.policy_file import settings_of
from phalanx.cli.study.changes import Changes, altered, last_state, seconds
from phalanx.cli.study.future import expected_starts, played
from phalanx.cli.study.outlook import WhatIfOutlook, notes, record, rows
from phalanx.cli.study.supposed import Objects
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.state.cluster import Cluster


async def whatif(
    *,
    changes: Changes | None = None,
    snapshot: Path | None = None,
    horizon: Annotated[str, Parameter(name="--for")] = "7d",
    assume_run: str = "1h",
    space: Namespace | None = None,
    target: Target | None = None,
    json: bool = False,
) -> None:
    """Forecast the effect of a change: when each job would start, which jobs would be preempted by which, and how long
    each job would wait.

    The scheduler's own code simulates the cluster (or a snapshot) twice: without the changes and with them. Nothing is
    submitted or changed. The simulation assumes that jobs run to their time limits, and that no further job is
    submitted. A job that ends before its time limit lets other jobs start earlier. BEFORE and AFTER show how long a job
    waits from now on. EXPECTED START is the median start with the changes, from the run times of similar past jobs.

    For example:

        phalanx whatif                                        # when do the waiting jobs start?
        phalanx whatif -f train.yaml                          # when would this job start?
        phalanx whatif -f queue.yaml --add-nodes 4xgpu-1      # with another quota, and four more nodes
        phalanx whatif --delete node/gpu-1 job/team-a/sweep
        phalanx whatif --snapshot now.jsonl --policy new.yaml --json

    Parameters
    ----------
    snapshot
        Read this snapshot or recording (of `phalanx snapshot` or `--record`) instead of a live cluster. The forecast
        begins with the state after its last step.
    horizon
        The length of the forecast: 12h, 7d.
    assume_run
        The assumed run time of a job without a time limit. For a running job, it is the time from now on.
    json
        Print JSON; docs/guide/whatif.md describes it.
    """
    changes, namespace = changes or Changes(), (space or Namespace()).namespace
    horizon_s, run_s = seconds("--for", horizon), seconds("--assume-run", assume_run)
    documents = read_files(changes.file)
    policy = settings_of(changes.policy).policy if changes.policy is not None else None
    before, listed = await beginning(snapshot, target)
    after, remarks = altered(before, listed, documents, changes, policy, namespace)
    now_s = before.now_s
    expected = expected_starts(after, now_s)
    outlook = WhatIfOutlook(
        before=played(before.copy(), horizon_s, run_s),
        after=played(after, horizon_s, run_s),
        now_s=now_s,
        horizon_s=horizon_s,
        run_s=run_s,
        expected=expected,
    )
    for remark in remarks:
        note(remark)
    if json:
        print_json(record(outlook))
        return
    show(outlook)


def show(outlook: WhatIfOutlook) -> None:
    if found := rows(outlook):
        print_table(outlook.columns, found)
    else:
        print("no job waits, neither now nor with the changes")
    if said := list(notes(outlook)):
        print("\n" + "\n".join(said))


async def beginning(snapshot: Path | None, target: Target | None) -> tuple[Cluster, Objects]:
    """Return the cluster state, and the API objects from which the state was read. For a snapshot, there are no API
    objects."""
    if snapshot is not None:
        return last_state(snapshot), {}
    async with connected(target) as connection:
        sight = await look(connection, ledger=find_ledger_of(target, os.environ))
    return sight.cluster, sight.objects
