"""`slurm/accounts/tree.py`: read and change the tree of accounts, with the usage of each account."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.accounts.tree import carry
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Account, Site


class Queues(ApiClient):
    """An API server with these queues: name -> spec."""

    def __init__(self, **queues: object) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser())
        self.queues = queues

    def find(self, path: str) -> dict[str, object] | None:
        spec = self.queues.get(path.rpartition("/")[2])
        return None if spec is None else {"spec": spec}

    def get(self, path: str, **query: str) -> dict[str, object]:
        return self.find(path) or {}

    def create(self, path: str, body: Any) -> dict[str, Any]:
        self.queues[body["metadata"]["name"]] = body["spec"]
        return {}


@pytest.mark.parametrize(("shares", "weight"), [(3, 3), (0, 0), (-1, None)])
def test_an_account_without_shares_has_none_as_a_queue(shares: int, weight: int | None) -> None:
    made = Queues()
    carry(made, Site(accounts={"e": Account(shares=shares)}), "e")
    assert made.queues == {"e": {} if weight is None else {"weight": weight}}
