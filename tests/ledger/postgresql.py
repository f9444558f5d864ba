"""A PostgreSQL for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def postgresql() -> Iterator[str]:
    """Yield the URL of an empty PostgreSQL that listens on a socket in a directory of its own. Not run as root."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed")
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg-") as data:
        if user is not None:
            shutil.chown(data, user)

        def call(*words: str) -> None:
            done = subprocess.run(words, user=user, cwd="/", capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

        call("initdb", "-D", f"{data}/d", "-A", "trust", "-N", "-E", "UTF8", "--no-locale", "-U", "ledger")
        options = f"-k {data} -c listen_addresses= -c fsync=off"
        with open(f"{data}/log", "w") as log:
            words = ["pg_ctl", "-D", f"{data}/d", "-w", "-o", options, "start"]
            subprocess.run(words, user=user, cwd="/", check=True, stdout=log, stderr=log)
        try:
            yield f"postgresql://ledger@/postgres?host={data}"
        finally:
            call("pg_ctl", "-D", f"{data}/d", "-m", "immediate", "-w", "stop")
