"""`cli/commands/one_machine/install.py`: the service of systemd that `phalanx install` writes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.cli.commands.one_machine.install import install
from phalanx.errors import PhalanxError


def test_the_service_starts_a_shared_cluster_and_leaves_pods_alone(tmp_path: Path) -> None:
    install(units=tmp_path, data=Path("/srv/my jobs"), port=7443)
    lines = (tmp_path / "phalanx.service").read_text().splitlines()
    assert next(line for line in lines if line.startswith("ExecStart=")).endswith(
        "-m phalanx.cli.app up --shared --data '/srv/my jobs' --port 7443"
    )
    assert {"KillMode=process", "Delegate=yes", "Restart=always", "StartLimitIntervalSec=0"} <= set(lines)
    with pytest.raises(PhalanxError, match="cannot be written"):
        install(units=tmp_path / "none")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
@pytest.mark.parametrize("data", ["/var/lib/phalanx", "/srv/my jobs/50%"])
def test_systemd_understands_the_service(tmp_path: Path, data: str) -> None:
    install(units=tmp_path, data=Path(data))
    words = ("systemd-analyze", "verify", str(tmp_path / "phalanx.service"))
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("data", ["jobs", "/srv/$HOME", "/srv/a'b", "/srv/a\nUser=x"])
def test_a_directory_that_systemd_would_read_otherwise_is_refused(tmp_path: Path, data: str) -> None:
    with pytest.raises(PhalanxError, match="must be an absolute path"):
        install(units=tmp_path, data=Path(data))
    assert not (tmp_path / "phalanx.service").exists()


def test_the_printed_commands_start_the_file_that_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(units=tmp_path)
    unit = tmp_path / "phalanx.service"
    assert capsys.readouterr().err == (
        f"wrote {unit}. Start it, now and at each boot: systemctl daemon-reload && systemctl enable --now phalanx\n"
    )
    lines = unit.read_text().splitlines()
    assert f"ExecStart={sys.executable} -m phalanx.cli.app up --shared --data /var/lib/phalanx --port 6443" in lines
    assert "RequiresMountsFor=/var/lib/phalanx" in lines


def test_a_service_that_exists_is_replaced(tmp_path: Path) -> None:
    install(units=tmp_path, port=1000)
    install(units=tmp_path, port=2000)
    text = (tmp_path / "phalanx.service").read_text()
    assert "--port 2000" in text
    assert "--port 1000" not in text


def test_percent_signs_are_no_specifiers_of_systemd(tmp_path: Path) -> None:
    install(units=tmp_path, data=Path("/srv/50%i"))
    lines = (tmp_path / "phalanx.service").read_text().splitlines()
    assert any("/srv/50%%i" in line for line in lines if line.startswith("ExecStart="))
    assert any("/srv/50%%i" in line for line in lines if line.startswith("RequiresMountsFor="))
