"""Jobs in images without Python: the bundle that contains srun, and its independence of the image."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.jobs.ask import KEY, TOOLS, Ask
from phalanx.slurm.jobs.steps.pods.bundle import _libraries, _make_room, bundle
from phalanx.slurm.main import install
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.creation import daemon

pytestmark = pytest.mark.slow

ASK = Ask(name="j", user="ada", uid=7, gid=7, group="g", account="lab", partition="batch", mounts=["/data:/mnt:ro"])
SITE = Site(tools="registry.example/phalanx:1")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tools") / "it's-$(here)"
    (place / "bin" / "left-from-a-try").mkdir(parents=True)
    (place / ".phalanx-bundle").touch()
    bundle(place, ["srun", "squeue"])
    return place


def pod(image: str, site: Site = SITE) -> manifest.Object:
    found: manifest.Object = manifest.job(5, ASK, site, {}, [], image)["spec"]["template"]["spec"]
    return found


def test_a_pod_of_another_image_gets_the_tools_from_the_sites() -> None:
    found = pod("alpine")
    [first], [batch] = found["initContainers"], found["containers"]
    assert (first["image"], batch["image"]) == ("registry.example/phalanx:1", "alpine")
    assert first["command"][-1] == TOOLS == first["volumeMounts"][0]["mountPath"]
    assert [volume["name"] for volume in found["volumes"]] == ["phalanx-tools", "mount-0"]
    assert [(one["mountPath"], one["readOnly"]) for one in batch["volumeMounts"]] == [
        (TOOLS, True),
        ("/mnt", True),
    ]


@pytest.mark.parametrize(("image", "site"), [("host", SITE), ("alpine", Site())])
def test_others_do_not(image: str, site: Site) -> None:
    found = pod(image, site)
    assert "initContainers" not in found
    assert [volume["name"] for volume in found["volumes"]] == ["mount-0"]


def test_the_daemon_is_started_where_there_is_one() -> None:
    here = daemon(SITE, "host", "k")
    there = daemon(SITE, "alpine", "k")
    assert (here[KEY], there[KEY], daemon(Site(), "alpine", "k")) == ("k", "k", {})
    assert "PHALANX_PATH" not in here
    assert there["PHALANX_PATH"] == f"{TOOLS}/bin"
    assert there["PHALANX_PYTHON"] == f"{TOOLS}/python -I -m phalanx.slurm.jobs.steps.pods"


def test_a_script_calls_srun_with_nothing_but_the_tools(tools: Path, tmp_path: Path) -> None:
    program = "import sys; print(sys.prefix); print(*{l.split()[5] for l in open('/proc/self/maps') if '.so' in l})"
    python = shlex.quote(str(tools / "python"))
    script = f'command -v srun\nsrun -n2 -l sh -c \'echo "$SLURM_PROCID"\'\n{python} -I -c "{program}"\n'
    environment = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PHALANX_LAUNCHER": manifest.launcher(),
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}", "PHALANX_WORKDIR": str(tmp_path), "PHALANX_STDIN": "/dev/null",
        "PHALANX_STDOUT": str(tmp_path / "out"), "PHALANX_PATH": str(tools / "bin"), "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_ON_NODE": "2", "SLURMD_NODENAME": "n1",
    }  # fmt: skip
    command = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    said = (tmp_path / "out").read_text().splitlines()
    assert (done.returncode, done.stderr) == (0, ""), said
    where, *tasks, home, libraries = said
    assert where == f"{tools}/bin/srun"
    assert sorted(tasks) == ["0: 0", "1: 1"]
    assert home == f"{tools}/home"
    assert [name for name in libraries.split() if not name.startswith(f"{tools}/")] == []


def test_the_daemon_starts_from_the_tools(tools: Path) -> None:
    program = "from phalanx.slurm.jobs.steps.pods import nodelist, stepd; print(stepd.__file__)"
    words = [str(tools / "python"), "-I", "-c", program]
    assert subprocess.check_output(words, env={}, text=True, timeout=120).startswith(f"{tools}/home/")
    assert not (tools / "bin" / "left-from-a-try").exists()


@pytest.mark.parametrize("part", ["bin", "home", "lib", "python"])
def test_what_is_anothers_is_left_alone(tmp_path: Path, part: str) -> None:
    (tmp_path / part).mkdir()
    (tmp_path / part / "mine").touch()
    with pytest.raises(PhalanxError, match=f"{part} exists, and no earlier bundle created it.*Nothing was changed"):
        bundle(tmp_path, ["srun"])
    assert [each.relative_to(tmp_path) for each in tmp_path.rglob("*")] == [Path(part), Path(part, "mine")]


def test_a_link_in_place_of_a_part_is_not_followed(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    (tmp_path / "bin").symlink_to(kept)
    with pytest.raises(PhalanxError, match="bin exists"):
        bundle(tmp_path, ["srun"])
    (tmp_path / ".phalanx-bundle").touch()
    _make_room(tmp_path)
    assert kept.is_dir()
    assert not (tmp_path / "bin").is_symlink()


def test_a_path_that_the_loader_would_divide_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="the loader splits paths"):
        bundle(tmp_path / "a:b", ["srun"])
    assert not (tmp_path / "a:b").exists()


def test_of_many_files_that_cannot_be_copied_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")] * 9999)

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device: 'b'$"):
        bundle(tmp_path, ["srun"])


def test_commands_are_not_installed_over_a_real_slurm(tmp_path: Path) -> None:
    (real := tmp_path / "squeue").write_bytes(b"\x7fELF")
    with pytest.raises(PhalanxError, match="squeue exists, and this command did not create it"):
        install(tmp_path)
    assert list(tmp_path.iterdir()) == [real]
    real.unlink()
    assert install(tmp_path) == install(tmp_path)  # once more, over its own


def test_an_interpreter_without_a_loader_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not linked with shared libraries"):
        _libraries(
            ["00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/python3", "7f00-7f01 rw-p 0 00:00 0"],
            tmp_path / "x",
        )
