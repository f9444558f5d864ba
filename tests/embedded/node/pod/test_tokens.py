"""`embedded/node/pod/tokens.py`: tokens of service accounts that pods have as files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.tokens import renew, token_files
from tests.embedded.node.objects import pod
from tests.embedded.node.pod.test_volumes import look_up, mode, token


def test_a_token_is_renewed_after_four_fifths_of_its_life_in_its_place(tmp_path: Path) -> None:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}}
    owner = pod(volumes=[{"name": "v", "projected": {"sources": [source]}}])
    asyncio.run(volumes.set_up(owner, tmp_path, {}, look_up, token))
    path, asked = tmp_path / "v" / "token", []
    os.utime(path, (5000.0, 5000.0))
    there = path.parent.stat().st_ino

    async def request(namespace: str, account: str, said: Any) -> str:
        asked.append((namespace, account, said["expirationSeconds"]))
        return "another"

    files = token_files(owner, tmp_path)
    assert asyncio.run(renew(files, owner, request, 5799.0)) == 5800.0
    assert asked == []
    assert asyncio.run(renew(files, owner, request, 5800.0)) == path.stat().st_mtime + 800.0
    assert (asked, path.read_text()) == ([("default", "default", 1000)], "another")
    assert (path.parent.stat().st_ino, mode(path)) == (there, 0o644)
    assert asyncio.run(renew((), owner, request, 5800.0)) is None
