"""The mount point of a service account's token: created only in the container, and the machine's files in that folder
stay visible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,  # real processes
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount namespace, which needs root"),
]

# The view of a container with such a mount, in a mount namespace whose /var/run contains only the given files.
RUN = """
import asyncio, sys
from pathlib import Path
from phalanx.embedded.node.container.attempt import Attempt, Mount, RunSpec

place, folder = Path("/var/run/secrets"), Path(sys.argv[1])
account = place / "kubernetes.io/serviceaccount"
(folder / "token").write_text("secret")
words = f"cd {place} && cat {account}/token && find . ! -type d | sort && stat -c %a . && echo x > kubernetes.io/y"
mounts = (Mount(source=str(folder), target=str(account), read_only=True),)
attempt = Attempt(folder.parent / "main", 0)

async def run():
    await attempt.start(RunSpec(argv=("sh", "-c", words), env={}, mounts=mounts))
    async with asyncio.timeout(240):
        await attempt.ended()

asyncio.run(run())
attempt.settle()
print(*[line.split(" ", 3)[3].strip() for line in attempt.log.read_text().splitlines()])
print(*sorted(str(path.relative_to(place)) for path in place.rglob("*")))
"""


@pytest.mark.parametrize(
    ("made", "seen", "left"),
    [
        ("true", "", ""),
        ("mkdir -m 700 secrets && echo a > secrets/a && ln -s no secrets/c", "./a ", "a c"),
        ("mkdir -p secrets/b secrets/kubernetes.io && ln -s no secrets/c", "./c ", "b c kubernetes.io"),
        ("mkdir -p secrets/kubernetes.io/other", "", "kubernetes.io kubernetes.io/other"),
    ],
)
def test_the_machine_does_not_look_like_a_pod_after_one_ran(made: str, seen: str, left: str, tmp_path: Path) -> None:
    """Client libraries take the folder of a service account for a sign that they run in a pod."""
    (tmp_path / "account").mkdir()
    shell = f'mount -t tmpfs none /var/run && cd /var/run && {made} && cd / && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", shell, "sh", sys.executable, "-c", RUN, str(tmp_path / "account")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    mode = "700" if "-m 700" in made else "755"
    token = "./kubernetes.io/serviceaccount/token"
    words, rest = done.stdout.splitlines()
    assert words == f"secret{seen}{token} {mode}"
    assert rest == left
