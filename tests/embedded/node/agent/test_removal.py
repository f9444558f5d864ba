"""`agent/pod/removal.py`: the deletion of a pod's object, and the logs that outlast it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown
from phalanx.embedded.node.agent.pod.removal import Deletion, delete_object, keep_logs
from phalanx.embedded.node.container.log.kept import KeptPod
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="2024-01-01T00:00:00Z", owner="Job/j")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (None, Deletion.ACCEPTED),
        (ApiRefusal(404, "NotFound", "no such pod"), Deletion.GONE),
        (ApiRefusal(409, "Conflict", "another uid"), Deletion.GONE),
        (ApiRefusal(403, "Forbidden", "you may not"), Deletion.REFUSED),
        (ApiUnknown("no answer"), Deletion.UNKNOWN),
    ],
    ids=["accepted", "gone", "another pod has its name", "forbidden", "no answer"],
)
def test_what_the_server_answers(error: ApiError | None, answer: Deletion) -> None:
    bodies = list[Any]()

    async def delete(kind: Any, name: str, namespace: str, body: Any) -> None:
        bodies.append(body)
        if error is not None:
            raise error

    around: Any = SimpleNamespace(connection=SimpleNamespace(delete=delete))
    assert asyncio.run(delete_object(around, pod())) is answer
    assert bodies == [{"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-p"}}]


def test_logs_that_do_not_fit_on_the_disk_are_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = list[tuple[str, Path]]()

    def keep(about: KeptPod, folder: Path) -> None:
        kept.append((about.owner, folder))
        if len(kept) == 2:
            raise OSError("no space left on device")

    around: Any = SimpleNamespace(kept_logs=SimpleNamespace(keep=keep), pod_dir=lambda uid: tmp_path / uid)
    for _ in range(2):
        keep_logs(around, RECORD)
    assert kept == [("Job/j", tmp_path / "u")] * 2
    assert [record.message for record in caplog.records] == [
        "the logs of pod default/p could not be kept: no space left on device"
    ]
