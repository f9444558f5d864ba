"""`make slurm-compare`: generated steps on a real Slurm and on Phalanx, and where they differ.

The real Slurm is Debian's package, installed into a layer over the machine's files (overlayfs) below out/, and started
with Phalanx in namespaces of mounts, network and host name: nothing else on the machine is changed or reached. Needs
root, Debian 12 and its packages; says so and ends with 0 otherwise.

    sudo make slurm-compare                    # STEPS=300 SEED=1
    .venv/bin/python -m tests.slurm.beside --steps 3000 --seed 7 --shrink
    .venv/bin/python -m tests.slurm.beside --steps 200 --sweep sacct
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.slurm.beside.generator import scenes
from tests.slurm.beside.player import Difference, Side, compare, shrunk
from tests.slurm.beside.sweeps import COMMANDS, begun, sweep

PACKAGES = ("slurm-wlm", "slurmdbd", "slurm-wlm-mysql-plugin", "slurm-wlm-basic-plugins", "mariadb-server", "munge")
ROOT = Path(__file__).parents[3]
PLACE = ROOT / "out" / "slurm-compare"
_SITE = Path("/SITE")  # in the layer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.beside")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sweep", choices=sorted(COMMANDS), help="every option of one command, one after the other")
    parser.add_argument("--shrink", action="store_true", help="look for the fewest steps of each difference")
    parser.add_argument("--within", choices=["layer", "namespaces"], help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.within == "layer":
        return _play(said)
    if said.within == "namespaces":
        return _enter()
    if why := _missing():
        print(f"slurm-compare: skipped: {why}")
        return 0
    for name in ("upper", "work", "root"):
        (PLACE / name).mkdir(parents=True, exist_ok=True)
    _install()
    words = [
        "unshare",
        "--net",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        sys.executable,
        "-m",
        __package__,
    ]
    return subprocess.run([*words, "--within", "namespaces", *sys.argv[1:]], cwd=ROOT, check=False).returncode


def _missing() -> str:
    if os.geteuid() != 0:
        return "it needs root"
    if missing := [name for name in ("unshare", "apt-get", "chroot", "mount") if shutil.which(name) is None]:
        return f"{', '.join(missing)} is missing"
    release = Path("/etc/os-release")
    return "" if release.exists() and "bookworm" in release.read_text() else "it needs Debian 12, whose Slurm is 22.05"


def _mounts() -> str:
    layers = f"lowerdir=/,upperdir={PLACE}/upper,workdir={PLACE}/work"
    kept = " ".join(str(one) for one in {ROOT, Path("/tmp"), Path("/dev"), Path("/sys")})
    return (
        f"set -e; mount -t overlay overlay -o {layers} {PLACE}/root; mount -t proc proc {PLACE}/root/proc; "
        f"for place in {kept}; do mkdir -p {PLACE}/root$place; mount --rbind $place {PLACE}/root$place; done"
    )


def _install() -> None:
    """Install the packages into the layer, where they are not there yet."""
    if (
        any(Path(place, "usr/sbin/slurmctld-wlm").exists() for place in ("/", PLACE / "upper"))
        and (PLACE / "upper" / "home" / "u1").exists()
    ):
        return
    users = "for n in 1 2 3; do id u$n > /dev/null 2>&1 || useradd -u 2000$n -U -m -s /bin/bash u$n; done"
    steps = f"apt-get update -q && apt-get install -qy --no-install-recommends {' '.join(PACKAGES)} && {users}"
    around = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    inside = f"{_mounts()}; exec chroot {PLACE}/root sh -c '{steps}'"
    subprocess.run(["unshare", "--mount", "bash", "-c", inside], env=around, check=True, stdout=sys.stderr)


def _enter() -> int:
    again = f"exec chroot {PLACE}/root {sys.executable} -m {__package__} --within layer {' '.join(sys.argv[3:])}"
    # An address besides 127.0.0.1: without one, the resolver finds no host by name.
    network = "ip link set lo up; ip addr add 10.255.255.1/32 dev lo; hostname ctl"
    return subprocess.run(["bash", "-c", f"{_mounts()}; {network}; {again}"], check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode  # fmt: skip # noqa: E501 (one expression)


def _play(said: argparse.Namespace) -> int:
    """In the layer: start both sites, play, and say what differs."""
    hosts = Path("/etc/hosts")
    if " ctl" not in hosts.read_text():
        hosts.write_text(hosts.read_text() + "127.0.0.1 ctl\n")
    place = Path(sys.executable)
    for folder in [*place.resolve().parents, *place.parents]:
        folder.chmod(folder.stat().st_mode | 0o011)  # users run the commands, too; in the layer alone
    _SITE.mkdir(exist_ok=True)
    for name in ("theirs", "ours"):
        words = ["bash", str(Path(__file__).with_name("site.sh")), name, str(_SITE / name), str(place.parent)]
        with (_SITE / f"{name}.log").open("w") as log:
            if subprocess.run(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False).returncode:
                print(
                    f"slurm-compare: the site of {name} did not start:\n{(_SITE / f'{name}.log').read_text()[-2000:]}"
                )
                return 1
    sides = (
        Side("theirs", "/usr/bin", _SITE / "play-theirs"),
        Side("ours", str(_SITE / "ours" / "bin"), _SITE / "play-ours"),
    )
    for side in sides:
        side.place.mkdir(parents=True, exist_ok=True)
        side.begin()
    alike = every = 0
    played = sweep(said.sweep, said.seed, said.steps) if said.sweep else scenes(said.seed, said.steps)
    for scene in played:
        made = begun(scene)  # what the first steps of a sweep make is not counted
        found = [one for one in compare(sides, scene) if made < one.at <= len(scene.steps)]
        steps = len(scene.steps) - made
        alike, every = alike + steps - len(found), every + steps
        for one in found:
            print(f"{scene.name}, step {one.at}: {one.line}\n{_shown(one)}", flush=True)
        if found and said.shrink:
            print("  shortest: " + " ; ".join(step.line for step in shrunk(sides, scene, found[0]).steps), flush=True)
    print(f"{alike} of {every} steps are alike ({100 * alike / every:.1f} %)")
    return 0


def _shown(one: Difference) -> str:
    lines = difflib.unified_diff(one.theirs.split("\n"), one.ours.split("\n"), "slurm", "phalanx", lineterm="", n=0)
    return "\n".join(f"    {line}" for line in list(lines)[2:14])


if __name__ == "__main__":
    sys.exit(main())
