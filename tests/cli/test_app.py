"""The command `phalanx` as a user meets it: help with examples, errors in one line, exit codes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.cli import app as cli
from phalanx.cli.app import build
from phalanx.errors import PhalanxError


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """Run `phalanx WORDS` in this process; its exit code."""
    monkeypatch.setattr("sys.argv", ["phalanx", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("KUBECONFIG", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("explian", "there is no command 'explian'; did you mean explain or replay? `phalanx --help` lists them."),
        ("xyzzy", "there is no command 'xyzzy'. `phalanx --help` lists them."),
        ("--versoin", "there is no option '--versoin'; did you mean --version? `phalanx --help` lists them."),
    ],
)
def test_an_unknown_command_gets_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, error: str
) -> None:
    assert call(monkeypatch, word) == 2
    assert capsys.readouterr().err == f"phalanx: error: {error}\n"


def test_without_a_cluster_the_error_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "jobs") == 1
    err = capsys.readouterr().err
    assert err.startswith("phalanx: error: no cluster is configured")
    assert "`phalanx up`" in err
    assert "Traceback" not in err


def test_a_cluster_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: c, "
            "contexts: [{name: c, context: {cluster: k, user: u}}], "
            f"clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{port}'}}}}], "
            "users: [{name: u, user: {}}]}"
        )
        assert call(monkeypatch, "nodes", "--kubeconfig", str(kubeconfig)) == 1
    err = capsys.readouterr().err
    assert f"the API server at http://127.0.0.1:{port} ({kubeconfig}) does not answer" in err


def test_a_taken_port_is_a_clear_error_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert call(monkeypatch, "up", "--data", str(tmp_path / "data"), "--port", str(port)) == 1
    err = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use. Nothing was started." in err
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["up.lock"]


def test_an_unwritable_directory_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert call(monkeypatch, "up", "--data", str(tmp_path / "file" / "data"), "--port", "0") == 1
    assert "cannot write the data directory" in capsys.readouterr().err


def test_a_wrong_option_is_a_wrong_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "jobs", "--wtach") == 2
    assert "--wtach" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--local-cpu", "-3"), 1, "--local-cpu '-3': the amount must be more than 0. Nothing was started."),
        (("--local-cpu", "foo"), 1, "--local-cpu 'foo' is not a quantity"),
        (("--node-memory", "10Qx"), 1, "--node-memory '10Qx' is not a quantity"),
        (("--simulate-nodes", "-1"), 2, "Must be >= 0."),
        (("--local-gpu", "-1"), 2, "Must be >= 0."),
        (("--node-pods", "0"), 2, "Must be >= 1."),
    ],
)
def test_a_machine_that_cannot_be_is_refused_before_anything_starts(
    words: tuple[str, ...],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert call(monkeypatch, "up", *words, "--data", str(tmp_path / "data")) == code
    printed = capsys.readouterr()
    assert message in printed.err + printed.out
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["picture.txt", "file/picture.svg"])
def test_a_demo_that_could_not_draw_is_refused_before_it_starts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert call(monkeypatch, "demo", "--timeline", str(tmp_path / name)) == 1
    err = capsys.readouterr().err
    assert "--timeline" in err
    assert "Nothing was started" in err


def test_a_malformed_manifest_is_refused_before_a_cluster_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: x\n")
    assert call(monkeypatch, "submit", str(file)) == 1
    assert f"phalanx: error: {file}:4: this is not YAML" in capsys.readouterr().err


def test_a_snapshot_into_a_folder_that_is_not_there_names_the_file_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "gone" / "now.jsonl"
    assert call(monkeypatch, "snapshot", str(file)) == 1
    assert (
        f"{file} cannot be written: there is no folder {file.parent}. Nothing was written." in capsys.readouterr().err
    )


def test_a_dry_run_prints_the_job_and_needs_no_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "submit", "--dry-run", "--name", "x", "--", "echo", "--help") == 0
    assert "command:\n        - echo\n        - --help\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_dash_is_standard_input() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": {}}}}
    command = [sys.executable, "-m", "phalanx.cli.app", "submit", "--dry-run", "--json", "-"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["metadata"]["name"] == "x"
    broken = subprocess.run(command, input="{", capture_output=True, text=True, timeout=120, check=False)
    assert "standard input:" in broken.stderr
    assert cli.with_standard_input(["run", "--", "cat", "-"]) == ["run", "--", "cat", "-"]


def test_a_dry_run_may_be_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "submit", "--dry-run", "--json", "--name", "x", "--", "true") == 0
    [job] = json.loads(capsys.readouterr().out)
    assert (job["kind"], job["metadata"]["name"], job["spec"]["suspend"]) == ("Job", "x", True)


async def _broken() -> None:
    raise ExceptionGroup("tasks", [ExceptionGroup("inner", [PhalanxError("what, where, now what")])])


def test_an_error_out_of_a_group_of_tasks_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("phalanx.cli.commands.status.nodes.connected", lambda target: _Broken())
    assert call(monkeypatch, "nodes") == 1
    assert capsys.readouterr().err == "phalanx: error: what, where, now what\n"


class _Broken:
    async def __aenter__(self) -> None:
        await _broken()

    async def __aexit__(self, *ending: object) -> None: ...


def test_a_reader_that_has_seen_enough_is_met_in_silence() -> None:
    script = "import sys; sys.argv = ['phalanx', '--help']; from phalanx.cli.app import main; main()"
    writer = subprocess.Popen((sys.executable, "-c", script), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    assert writer.stderr.read() == ""
    writer.stderr.close()
    writer.wait(timeout=120)


def test_a_full_disk_behind_the_output_is_told_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "phalanx.cli.app", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == (
        "phalanx: error: the output is incomplete: No space left on device; free some disk space and repeat the "
        "command\n"
    )


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("run python train.py --epochs 3", "run -- python train.py --epochs 3"),
        ("run --pods 2 -q research --hold sort -n", "run --pods 2 -q research --hold -- sort -n"),
        ("run --cpu=2 -- sort -n", "run --cpu=2 -- sort -n"),
        ("run --help", "run --help"),
        ("run --pods", "run --pods"),
        ("submit --name x sort -n", "submit --name x -- sort -n"),
        ("submit no-such-program.yaml", "submit no-such-program.yaml"),
        ("logs sort", "logs sort"),
    ],
)
def test_a_command_may_stand_without_dashes(line: str, meant: str) -> None:
    assert " ".join(cli.with_dashes(line.split())) == meant


def test_a_file_to_submit_is_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sort").touch()
    assert cli.with_dashes(["submit", "sort"]) == ["submit", "sort"]


def test_options_in_a_script_are_those_of_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/sh -e\n# comment\n#PHALANX --pods 4 -q lab --env A=1  # why\n#PHALANX --hold --cpu=2\n"
        "true\n#PHALANX --gpu 8\n"
    )
    meant = ["submit", "--pods", "4", "--env", "A=1", "--hold", "--cpu=2", "--queue", "mine", "--env", "B=2", "--"]
    line = ["submit", "--queue", "mine", "--env", "B=2", str(script), "-n", "3"]
    assert cli.with_dashes(line) == [*meant, "/bin/sh", "-e", str(script), "-n", "3"]
    script.chmod(0o700)
    assert cli.with_dashes(line) == [*meant, str(script), "-n", "3"]


@pytest.mark.parametrize(("words", "complaint"), [("--pods '4", "quotation"), ("4", "'4' is not an option")])
def test_a_line_of_a_script_that_cannot_be_read_is_named(tmp_path: Path, words: str, complaint: str) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/sh\n#PHALANX {words}\n")
    with pytest.raises(PhalanxError, match=f"train.sh:2: .*{complaint}"):
        cli.with_dashes(["submit", str(script)])


def test_every_option_without_a_value_is_known_where_a_command_may_follow() -> None:
    """`with_dashes` must know which options take the next word for their value."""
    app = build("run")
    for name in ("run", "submit"):
        arguments = app[name].assemble_argument_collection()
        named = [word for one in arguments if one.hint is bool for word in one.names]
        flags = {word for word in named if not word.startswith("--no-")}  # the command line has none of these
        assert flags <= cli.FLAGS
        valued = {word for one in arguments if one.hint is not bool for word in one.names}
        assert not valued & cli.FLAGS


def test_a_program_is_no_manifest_and_a_folder_has_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    assert call(monkeypatch, "submit", str(tmp_path / "train.py")) == 1
    assert f"phalanx submit -- python {tmp_path}/train.py" in capsys.readouterr().err
    folder = tmp_path / "jobs"
    (folder / "deep").mkdir(parents=True)
    for name in ("b.yaml", "deep/a.json", "note.txt"):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": Path(name).stem}}
        (folder / name).write_text(json.dumps({**job, "spec": {"template": {"spec": {}}}}))
    assert call(monkeypatch, "submit", "--dry-run", "--json", str(folder)) == 0
    assert [one["metadata"]["name"] for one in json.loads(capsys.readouterr().out)] == ["b", "a"]
    (tmp_path / "empty").mkdir()
    assert call(monkeypatch, "submit", str(tmp_path / "empty")) == 1
    assert "the folder has no manifests" in capsys.readouterr().err


@pytest.mark.slow
def test_an_array_is_a_job_for_each_task(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("submit", "--dry-run", "--json", "--name", "sweep", "--array")
    assert call(monkeypatch, *line, "5-9:2%2", "--", "true") == 0
    jobs = json.loads(capsys.readouterr().out)
    assert [job["metadata"]["name"] for job in jobs] == ["sweep-5", "sweep-7", "sweep-9"]
    assert {job["metadata"]["labels"]["phalanx.dev/array"] for job in jobs} == {"sweep"}
    assert {job["metadata"]["annotations"]["phalanx.dev/array-cap"] for job in jobs} == {"2"}
    environment = jobs[1]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "PHALANX_ARRAY_TASK_ID", "value": "7"} in environment
    for wrong in ("", "x", "3-1", "1-5%0", "1-200000"):
        assert call(monkeypatch, *line[:-1], f"--array={wrong or '-'}", "--", "true") == 1
        assert "--array" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--memory", "100"), "--memory 100 is 100 bytes, which is too little for any program"),
        (("--ttl", "soon"), "--ttl 'soon': write for example 12h or 7d"),
    ],
)
def test_what_is_mistyped_is_refused(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "submit", "--dry-run", *words, "--", "true") == 1
    assert message in capsys.readouterr().err


def test_retries_and_the_time_that_a_job_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "submit", "--dry-run", "--json", "--", "true") == 0
    [plain] = json.loads(capsys.readouterr().out)
    assert (plain["spec"]["backoffLimit"], plain["spec"]["ttlSecondsAfterFinished"]) == (0, 86400)
    assert call(monkeypatch, "submit", "--dry-run", "--json", "--retries", "3", "--ttl", "1h", "--", "true") == 0
    [job] = json.loads(capsys.readouterr().out)
    assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (3, 3600)
