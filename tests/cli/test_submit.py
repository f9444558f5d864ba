"""`cli/commands/work/submit.py`: `phalanx submit`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.work.submit import _create_all, split
from phalanx.cli.files.manifest import (
    queued,
    read_files,
)
from phalanx.client.connection import ApiUnknown, Connection
from phalanx.errors import PhalanxError
from tests.cli.test_manifest import JOB, written


def test_files_stand_before_the_dashes_and_the_command_after_them() -> None:
    assert split(["a.yaml", "b.yaml"], ["phalanx", "submit", "a.yaml", "b.yaml"])[0] == (Path("a.yaml"), Path("b.yaml"))
    line = ["phalanx", "submit", "--name", "x", "--", "sh", "--", "y"]
    assert split(["sh", "--", "y"], line) == ((), ("sh", "--", "y"))


class Breaking(Connection):
    """Creates one object; then the server is gone."""

    def __init__(self) -> None:
        super().__init__("https://cluster", headers={}, tls=None)
        self.made: list[Any] = []

    async def request(self, method: str, path: str, **how: Any) -> Any:
        if method == "GET":
            return {"resources": [{"kind": "Job", "name": "jobs", "namespaced": True}]}
        if self.made:
            raise ApiUnknown("the connection broke")
        self.made.append(how["body"])
        return {**how["body"], "metadata": {**how["body"]["metadata"], "namespace": "lab"}}


def test_what_was_created_before_an_error_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = read_files([written(tmp_path, f"{JOB}---\n{JOB.replace('train', 'second')}")])
    objects = [(document, queued(document, None)) for document in documents]
    with pytest.raises(PhalanxError, match="It is unknown whether this object was created") as broken:
        asyncio.run(_create_all(Breaking(), objects, "lab", tell=True))
    assert str(broken.value).startswith(f"{tmp_path}/job.yaml:")
    assert capsys.readouterr().out == "job lab/train created in queue default\n"
