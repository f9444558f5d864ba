"""Both clusters of a move: what is refused before anything is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.submission.moving import ends
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import DEFINITIONS, DIGEST


def cluster(**answers: Any) -> Any:
    """A cluster that answers each call with this, or raises it."""

    def method(answer: Any) -> Any:
        async def call(*asked: Any, **_: Any) -> Any:
            found = answer(*asked) if callable(answer) else answer
            if isinstance(found, Exception):
                raise found
            return found

        return call

    return SimpleNamespace(server="https://there", **{name: method(answer) for name, answer in answers.items()})


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ({"major": "1", "minor": "29"}, True),
        ({"major": "1", "minor": "32+"}, True),
        ({"major": "2", "minor": "0"}, True),
        ({"major": "1", "minor": "28", "gitVersion": "v1.28.3"}, False),
        ({}, False),
    ],
)
def test_an_old_cluster_is_refused(version: dict[str, str], fits: bool) -> None:
    there = cluster(request=version)
    if fits:
        asyncio.run(ends._require_version(there))
        return
    with pytest.raises(PhalanxError, match=r"Phalanx needs 1\.29 or newer\. Nothing was changed"):
        asyncio.run(ends._require_version(there))


def test_a_move_takes_an_administrator() -> None:
    asyncio.run(ends._require_administrator(cluster(create={"status": {"allowed": True}})))
    for answer in ({"status": {"allowed": False}}, {}):
        with pytest.raises(PhalanxError, match="needs an administrator of both clusters"):
            asyncio.run(ends._require_administrator(cluster(create=answer)))
    with pytest.raises(PhalanxError, match="does not answer which rights its kubeconfig has"):
        asyncio.run(ends._require_administrator(cluster(create=ApiUnknown("away"))))


def test_definitions_of_another_version_are_refused() -> None:
    ours = {body["metadata"]["name"]: body for body in DEFINITIONS.values()}
    missing = ApiRefusal(404, "NotFound", "")
    asyncio.run(ends._require_same_definitions(cluster(get=lambda kind, name, *_: ours[name])))
    asyncio.run(ends._require_same_definitions(cluster(get=missing)))
    other = {"metadata": {"annotations": {DIGEST: "other"}}}
    with pytest.raises(PhalanxError, match="of another version of Phalanx"):
        asyncio.run(ends._require_same_definitions(cluster(get=other)))


def test_a_kubeconfig_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="there is no such file, or it cannot be read"):
        ends._readable(tmp_path / "none")
    (tmp_path / "config").touch()
    assert ends._readable(tmp_path / "config") == tmp_path / "config"


@pytest.mark.parametrize(
    ("lease", "who"),
    [
        ({"renewTime": "1970-01-01T00:01:00.000000Z", "holderIdentity": "a"}, "a"),
        ({"renewTime": "1970-01-01T00:00:10.000000Z", "holderIdentity": "a"}, ""),  # not renewed for a minute
        ({"renewTime": "1970-01-01T00:01:00.000000Z"}, ""),
        ({"holderIdentity": "a"}, ""),
        (None, ""),
    ],
)
def test_the_leader_is_who_renewed_the_lease_lately(lease: Any, who: str) -> None:
    found = ApiRefusal(404, "NotFound", "") if lease is None else {"spec": lease}
    assert asyncio.run(ends.leader(cluster(get=found), 100.0)) == who
