"""The cluster that the functions of the Python interface use, and functions that find a job of the cluster by name."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from phalanx.api.values import Job
from phalanx.cli.cluster.jobs.finding import Finder, FoundJob
from phalanx.cli.cluster.target import Target, connected, current_namespace, find_ledger_of
from phalanx.client.connection import Connection

Name = str | Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster to use. `kubeconfig`, `context`: a kubeconfig file and a context; None: the same as for the `phalanx`
    commands. `namespace`: the namespace of jobs that are named without a namespace."""

    kubeconfig: str | Path | None = None
    context: str | None = None
    namespace: str = ""

    @property
    def target(self) -> Target:
        file = None if self.kubeconfig is None else Path(self.kubeconfig)
        return Target(kubeconfig=file, context=self.context)

    @property
    def own_namespace(self) -> str:
        return self.namespace or current_namespace(os.environ)

    @property
    def ledger(self) -> str | None:
        """Return the URL of the cluster's ledger; None without a ledger."""
        return find_ledger_of(self.target, os.environ)

    def connected(self) -> AbstractAsyncContextManager[Connection]:
        """Return a context manager that yields a connection to the cluster, and closes it at the end."""
        return connected(self.target)

    async def find(self, connection: Connection, name: Name) -> FoundJob:
        text = name.id if isinstance(name, Job) else name
        return await Finder(connection, self.own_namespace, self.ledger).one(text)


HERE = Cluster()
