"""The requirements of examples are installed before they run; otherwise they are skipped (see `installing.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.examples.installing import install
from tests.examples.running import ASKED, EXAMPLES

LIMIT_S = 300.0  # from the start of the tests; examples whose requirements are missing then are skipped
MISSING = 3  # examples/needs.py
_BACKGROUND = pytest.StashKey[subprocess.Popen[bytes]]()
_DEADLINE_S = pytest.StashKey[float]()


def _folder(item: pytest.Item) -> str | None:
    """Return the example whose packages this test needs."""
    marker = item.get_closest_marker("installs")
    return marker.args[0] if marker else None


def _is_asked(folder: str) -> bool:
    return not ASKED or folder in ASKED


def pytest_collection_finish(session: pytest.Session) -> None:
    """The first worker begins to install what the tests that were chosen need."""
    session.config.stash[_DEADLINE_S] = time.monotonic() + LIMIT_S
    folders = dict.fromkeys(name for item in session.items if (name := _folder(item)) and _is_asked(name))
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if not folders or not is_first or session.config.option.collectonly:
        return
    session.config.stash[_BACKGROUND] = subprocess.Popen(
        [sys.executable, "-m", "tests.examples.installing", str(LIMIT_S), *folders],
        cwd=EXAMPLES.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """It is over long ago, unless the tests were stopped: then Ctrl-C reaches it, too."""
    background = session.config.stash.get(_BACKGROUND, None)
    if background is not None and background.poll() is None:
        os.killpg(background.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            background.wait(timeout=60)


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> None:
    """Install the requirements of the test's example; without them the test is skipped, unless the example was
    named."""
    folder = _folder(request.node)
    assert folder is not None
    if not _is_asked(folder):
        pytest.skip(f"PHALANX_EXAMPLES={','.join(ASKED)} leaves out examples/{folder}")
    done = install(folder, request.config.stash[_DEADLINE_S])
    if done.returncode == MISSING and not ASKED:
        pytest.skip(f"examples/{folder}: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
