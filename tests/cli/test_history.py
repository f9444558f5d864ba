"""`phalanx history`: what ran on a real `phalanx up`, through kill -9 of what keeps it, and after deletion."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.status.history import find_ledger
from phalanx.cli.terminal.moments import past_moment
from phalanx.errors import PhalanxError
from tests.cli.test_up import child
from tests.cli.upstart import Up, started, until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "4") as up:
        yield up
        up.stop()


def history(up: Up, *words: str) -> dict[str, dict[str, Any]]:
    done = up.phalanx("history", "--json", *words)
    assert done.returncode == 0, done.stderr
    entries = json.loads(done.stdout) if done.stdout else []
    assert len({entry["uid"] for entry in entries}) == len(entries)
    return {entry["job"].removeprefix("default/"): entry for entry in entries}


def ended(up: Up, name: str) -> dict[str, Any]:
    until(lambda: history(up)[name]["ended"] is not None)
    return history(up)[name]


@pytest.mark.slow
def test_jobs_that_ended_in_each_way(up: Up) -> None:
    assert up.phalanx("run", "--name", "good", "--", "true").returncode == 0
    assert up.phalanx("run", "--name", "bad", "--", "sh", "-c", "exit 7").returncode == 7
    assert up.phalanx("run", "--name", "late", "--time-limit", "1s", "--", "sleep", "600").returncode == 124
    up.phalanx("submit", "--name", "cut", "--", "sleep", "600")
    until(lambda: history(up).get("cut", {}).get("state") == "RUNNING")
    up.kubectl("delete", "job", "cut")
    up.phalanx("submit", "--name", "huge", "--cpu", "99", "--", "true")
    until(lambda: history(up).get("huge", {}).get("waits_for") == "NeverFits")
    up.kubectl("delete", "job", "huge")
    found = {name: (ended(up, name)["state"], ended(up, name)["exit_code"]) for name in ("good", "bad", "late", "huge")}
    assert found == {
        "good": ("COMPLETED", 0),
        "bad": ("FAILED", 7),
        "late": ("TIMEOUT", None),
        "huge": ("CANCELLED", None),
    }
    assert (ended(up, "cut")["state"], ended(up, "cut")["cause"]) == ("CANCELLED", "it was deleted by admin")
    assert "container main: exit code 7" in ended(up, "bad")["cause"]
    assert ended(up, "late")["cause"] == "it reached its time limit (1s) and was ended"
    assert ended(up, "good")["cause"] == ""
    assert "exit code 7" in up.phalanx("history").stdout
    good = ended(up, "good")
    assert (good["user"], good["queue"], good["allocated"], len(good["nodes"])) == (
        "admin",
        "default",
        {"cpu": 1000},
        1,
    )
    assert (len(good["starts"]), ended(up, "huge")["starts"]) == (1, [])


@pytest.mark.slow
def test_a_bare_pod_and_a_gang_of_several_objects_are_jobs_too(up: Up, tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lone"},
        "spec": {
            "schedulerName": "phalanx",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "host", "command": ["sh", "-c", "exit 5"]}],
        },
    }
    gang = [
        {
            **pod,
            "metadata": {
                "name": f"part-{number}",
                "labels": {"phalanx.dev/job": "both"},
                "annotations": {"phalanx.dev/min-available": "2"},
            },
        }
        for number in range(2)
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, *gang]}))
    up.kubectl("create", "-f", str(tmp_path / "pods.json"))
    lone, both = ended(up, "pod:lone"), ended(up, "both")
    assert (lone["kind"], lone["state"], lone["exit_code"]) == ("Pod", "FAILED", 5)
    assert (both["kind"], both["state"], both["pods"], both["exit_code"]) == ("Gang", "FAILED", 2, 5)


@pytest.mark.slow
def test_the_control_plane_is_killed_while_jobs_run_end_and_are_deleted(up: Up) -> None:
    for name in ("ends", "stays", "goes"):
        up.phalanx("submit", "--name", name, "--", "sh", "-c", f"until [ -e {up.data}/{name} ]; do sleep 0.1; done")
    until(lambda: all(history(up)[name]["state"] == "RUNNING" for name in ("ends", "stays", "goes")))
    plane = child(up, "control-plane")
    os.kill(plane, signal.SIGSTOP)
    (up.data / "ends").touch()
    up.kubectl("delete", "job", "goes", "--wait=false", "--cascade=orphan")
    os.kill(plane, signal.SIGKILL)
    assert ended(up, "ends")["state"] == "COMPLETED"
    goes = ended(up, "goes")
    assert (goes["state"], len(goes["starts"])) == ("CANCELLED", 1)
    assert history(up)["stays"]["state"] == "RUNNING"
    (up.data / "stays").touch()
    (up.data / "goes").touch()
    assert len(ended(up, "stays")["starts"]) == 1


@pytest.mark.slow
def test_what_is_asked_for_and_in_which_form(up: Up) -> None:
    assert up.phalanx("run", "--name", "shown", "--", "true").returncode == 0
    assert ended(up, "shown")
    assert history(up, "--user", "nobody") == history(up, "--since", "2099-01-01") == {}
    assert set(history(up, "--account", "default", "--state", "COMPLETED")) >= {"shown"}
    rows = list(csv.DictReader(io.StringIO(up.phalanx("history", "--csv").stdout)))
    [row] = [row for row in rows if row["job"] == "default/shown"]
    assert (row["state"], row["starts"], row["allocated"]) == ("COMPLETED", "1", "cpu=1000")
    [line] = [line for line in up.phalanx("history").stdout.splitlines() if line.startswith("default/shown ")]
    assert "COMPLETED" in line
    [by] = [one for one in json.loads(up.phalanx("history", "--by", "user", "--json").stdout) if one["user"]]
    assert (by["user"], by["jobs"] >= 1) == ("admin", True)
    assert up.phalanx("history", "--since", "yesterday-ish").returncode == 1


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("7d", 1e6 - 7 * 86400),
        ("90s", 1e6 - 90),
        ("1970-01-02T00:00Z", 86400),
        ("1970-01-02", datetime(1970, 1, 2).timestamp()),
        ("1970-01-01T01:00+01:00", 0),
    ],
)
def test_moments(text: str, at_s: float) -> None:
    assert past_moment("--since", text, 1e6) == at_s


@pytest.mark.slow
def test_the_ledger_is_that_of_the_cluster_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "phalanx").mkdir()
    beside, own = tmp_path / "one" / "ledger.sqlite3", tmp_path / "phalanx" / "ledger.sqlite3"
    where = {"KUBECONFIG": str(tmp_path / "one" / "kubeconfig"), "XDG_DATA_HOME": str(tmp_path)}
    with pytest.raises(PhalanxError, match="there is no ledger"):
        find_ledger(where)
    own.touch()
    assert find_ledger(where) == f"sqlite:///{own}"
    beside.touch()
    assert find_ledger(where) == f"sqlite:///{beside}"
    assert find_ledger({**where, "PHALANX_LEDGER": "postgresql://db/x"}) == "postgresql://db/x"
