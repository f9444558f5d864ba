"""The player of manifests: its waits, and its error if the cluster cannot be cleaned up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from tests import clockwork
from tests.dialects import manifests
from tests.dialects.manifests import Cluster

STUCK = {
    "name": "held",
    "namespace": "lab",
    "uid": "u1",
    "creationTimestamp": "2030-01-01T00:00:00Z",
    "deletionTimestamp": "2030-01-01T00:00:01Z",
    "finalizers": ["example.com/mine"],
    "ownerReferences": [{"kind": "Job", "name": "owner", "uid": "u2"}],
}
KEEPS = ("2030-01-01T00:00:01Z", "example.com/mine", "Job owner u2")


class Server:
    """Keeps what it is to delete, for ever."""

    async def request(self, method: str, path: str, **said: Any) -> Any:
        if path.endswith("refused"):
            raise ApiRefusal(403, "Forbidden", "others are below it")
        return {"kind": "Thing", "metadata": STUCK} if method == "DELETE" else {"items": [{"metadata": STUCK}]}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("/apis/v1/things/refused", ["/apis/v1/things/refused: others are below it"]),
        ("/apis/v1/things/held", ["/apis/v1/things/held: uid u1", "/apis/v1/things lab/held: uid u1", *KEEPS]),
    ],
)
def test_what_keeps_the_cluster_from_being_clear_is_named(made: str, said: list[str]) -> None:
    cluster = Cluster(cast(Connection, Server()))
    cluster.remains, cluster.made = ("/apis/v1/things",), [made]
    with pytest.raises(AssertionError) as failure:
        clockwork.run(cluster.clear())
    assert [word for word in said if word not in str(failure.value)] == []


@pytest.mark.parametrize(
    ("looks", "expected", "told"),
    [
        (["waits"] * 20 + ["admitted"], "taken, admitted", "taken, admitted"),
        (["", "", "admitted"], "taken", "taken, admitted"),
        (["waits for s", "waits for s", "admitted"], "taken, waits for s", "taken, admitted"),
        ([""], "taken", "taken"),
        (["waits"], "taken, admitted", "taken, waits"),
    ],
)
def test_what_is_expected_is_waited_for_and_what_is_to_stay_so_is_looked_at_again(
    looks: list[str], expected: str, told: str
) -> None:
    cluster, rest = Cluster(cast(Connection, Server())), list(looks)
    cluster.made, cluster.expected = ["/apis/batch/v1/jobs/j"], [("Job j", expected)]

    async def look() -> manifests.Seen:
        return {"Job j": rest.pop(0) if len(rest) > 1 else rest[0]}

    def tell(seen: manifests.Seen) -> list[manifests.Line]:
        return [("Job j", f"taken, {seen['Job j']}" if seen["Job j"] else "taken")]

    assert clockwork.run(cluster.settle(look, tell)) == [("Job j", told)]
    assert (cluster.most_s == manifests.THEN_MOST_S) == (told != expected)
