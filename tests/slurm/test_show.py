"""scontrol show and scontrol write config, in the words of Slurm 22.05."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.commands.cluster import scontrol
from phalanx.slurm.commands.cluster.verbs import show
from phalanx.slurm.options import Usage
from tests.slurm.few_jobs import PAIR, WAITS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("7,x", "Job step 7. not found"),
        ("7.x", "Job step 7.0 not found"),
        ("7.3", "Job step 7.3 not found"),
        ("10_[1-2].3", "Job step 10_0. not found"),
        ("10_2.3", "Job step 10_2. not found"),
        ("x.1", "No job steps in the system"),
    ],
)
def test_show_step_reads_the_beginning_of_an_id(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(show.ApiClient, "open", lambda: None)
    monkeypatch.setattr(show, "jobs", lambda api, numbers: [WAITS, *PAIR])
    assert show.show(["step", text], False, False) == int(text != "x.1")
    assert capsys.readouterr().out == shown + "\n"


def test_quiet_does_not_print_that_there_is_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(show.ApiClient, "open", lambda: None)
    monkeypatch.setattr(show.reservations, "reservations", lambda api: [])
    assert [scontrol.run(["show", "res"]), scontrol.run(["-Q", "show", "res"])] == [0, 0]
    assert scontrol.run(["show", "res", ""]) == 1
    assert capsys.readouterr().out == "No reservations in the system\nReservation  not found\n"


def test_write_config(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(show.ApiClient, "open", lambda: None)
    here = Site(cluster="lab", partitions=[Partition(name="p", nodes=["n1", "n2"], default=True, max_min=60)])
    monkeypatch.setattr(show.site, "load", lambda api: here)
    monkeypatch.setattr(show.times, "moment", lambda at_s: "NOW")
    assert scontrol.run(["write", "config", str(tmp_path / "a")]) == 0
    assert scontrol.run(["write", "config", str(tmp_path / "no" / "a")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"Slurm config saved to {tmp_path}/a.NOW\n"
    assert printed.err == f"Could not create file {tmp_path}/no/a.NOW: No such file or directory\n"
    again, _ = read_conf((tmp_path / "a.NOW").read_text())
    assert (again.cluster, again.partitions[0].max_min, again.partitions[0].nodes) == ("lab", 60, ["n1", "n2"])


def test_ids_that_show_job_reads(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(show.ApiClient, "open", lambda: None)
    monkeypatch.setattr(show, "_all", lambda api, asked: [job for job in PAIR if asked.has(job)])
    monkeypatch.setattr(show, "jobs", lambda api, numbers, **_: PAIR)
    assert show.show(["job", "10_"], False, False) == 1
    assert capsys.readouterr().out == "Job 10_0 not found\n"
    with pytest.raises(Usage, match="scontrol_print_job error: Invalid job id"):
        show.show(["job", "10_[1-2]"], False, False)
