"""`phalanx image` and what it is for: jobs of one gang, each under an operating system of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from phalanx.embedded.node.container.isolation import find_isolation
from tests.cli.upstart import phalanx, started
from tests.embedded.node.images.roots import archive, layout, small_root
from tests.kubectl import KUBECTL

RELEASES = ("bookworm", "trixie")


def done(*words: str) -> str:
    found = phalanx("image", *words)
    assert found.returncode == 0, found.stderr
    return found.stdout + found.stderr


def test_images_come_are_listed_and_go(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    root = small_root(tmp_path / "root", programs=("cat",))
    made = layout(tmp_path / "layout", archive(root))
    assert "imported docker.io/library/one:latest " in done("import", "one", str(root), *data)
    assert "imported docker.io/team/two:1 " in done("import", "team/two:1", str(made), *data)
    names = [line.split()[0] for line in done("list", *data).splitlines()]
    assert names == ["NAME", "docker.io/library/one:latest", "docker.io/team/two:1"]
    assert json.loads(done("list", "-o", "json", *data))[1]["source"] == str(made)
    assert "removed 1 unused layers" in done("remove", "one", *data)
    refused = phalanx("image", "remove", "one", *data)
    assert (refused.returncode, "there is no image one" in refused.stderr) == (1, True)
    refused = phalanx("image", "import", "three", str(root), "--most-files", "3", *data)
    assert (refused.returncode, "--most-files" in refused.stderr) == (1, True)
    assert len(list((tmp_path / "data/images/layers").iterdir())) == 1


def job(release: str) -> str:
    """One of the two Jobs of the gang `pair`."""
    container = {"name": "main", "image": f"debian:{release}", "command": ["cat", "/etc/os-release"]}
    labels = {"phalanx.dev/queue": "default", "phalanx.dev/job": "pair", "phalanx.dev/job-roles": "2"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    meta = {"name": release, "labels": labels}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


@pytest.mark.slow
@pytest.mark.parametrize("real", [False, True], ids=["small", "debootstrap"])
@pytest.mark.long
def test_two_jobs_of_one_gang_run_under_two_releases(tmp_path: Path, real: bool) -> None:
    """Small systems of this machine's own files always; Debian's own where `PHALANX_DEBIAN` is set: that takes minutes
    and a network."""
    if real and not os.environ.get("PHALANX_DEBIAN"):
        pytest.skip("set PHALANX_DEBIAN=1 to build two releases of Debian by debootstrap (root, a network, 2 minutes)")
    (tmp_path / "allowed").mkdir()
    if refusal := find_isolation(tmp_path / "allowed").root_refusal:
        pytest.skip(f"containers cannot have a root of their own here: {refusal}")
    data = tmp_path / "data"
    for release in RELEASES:
        if real:
            done("build-debian", release, "--data", str(data))
        else:
            made = small_root(tmp_path / release, release)
            done("import", f"debian:{release}", str(made), "--data", str(data))
    with started(data) as up:
        for release in RELEASES:
            (tmp_path / f"{release}.json").write_text(job(release))
        up.kubectl("create", "-f", str(tmp_path / "bookworm.json"))
        assert json.loads(up.kubectl("get", "job", "bookworm", "-o", "json"))["spec"][
            "suspend"
        ]  # it has no partner yet
        up.kubectl("create", "-f", str(tmp_path / "trixie.json"))
        for release in RELEASES:
            up.kubectl("wait", f"job/{release}", "--for=condition=Complete", "--timeout=200s")
            assert f"VERSION_CODENAME={release}\n" in up.kubectl("logs", f"job/{release}")
        up.kubectl("run", "shell", "--image=debian:trixie", "--restart=Never", "--command", "--", "sleep", "600")
        up.kubectl("wait", "pod/shell", "--for=condition=Ready", "--timeout=200s")
        assert "VERSION_CODENAME=trixie" in up.kubectl("exec", "shell", "--", "cat", "/etc/os-release")
        missing = up.call(KUBECTL, "exec", "shell", "--", "no-such-program")
        assert (missing.returncode, "executable file not found" in missing.stderr) == (127, True)
        failed = up.call(KUBECTL, "exec", "shell", "--", "sh", "-c", "exit 9")
        assert failed.returncode == 9
        up.kubectl("delete", "pod", "shell", "--now")
