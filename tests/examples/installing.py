"""Install the requirements of examples while other tests run: `python -m tests.examples.installing SECONDS FOLDER…`.

Installations wait for the network, and tests do not. Examples are installed one after the other, the smallest first, in
the order of the tests. A test whose requirements are not ready starts the same installation and waits for it
(`examples/needs.py` has a lock).
"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.examples.running import EXAMPLES


def install(folder: str, deadline_s: float) -> subprocess.CompletedProcess[str]:
    """`deadline_s` on the monotonic clock; what is installed already is never too late."""
    left_s = max(deadline_s - time.monotonic(), 0.0)
    command = [sys.executable, str(EXAMPLES / folder / "run"), "--install", f"--install-timeout={left_s:.0f}"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    END_S = time.monotonic() + float(sys.argv[1])
    for name in sys.argv[2:]:
        install(name, END_S)
