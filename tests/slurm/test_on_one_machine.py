"""Slurm's commands on a real `phalanx up`: scripts run as processes, and everything that users look at."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.main import install
from tests.cli.upstart import Up, started, until
from tests.slurm.shell import ME, Shell

pytestmark = pytest.mark.slow
TERMINAL = f'{sys.executable} -c "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"'  # runs a command in one


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "4", "--local-memory", "8Gi") as up:
        install(up.data / "bin")
        yield up
        up.stop()


@pytest.fixture
def shell(up: Up, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(up, tmp_path)
    yield shell
    shell.call(f"scancel -u {ME}")
    until(lambda: shell("squeue -h") == "")


def test_a_script_from_its_submission_to_its_accounting(shell: Shell) -> None:
    (shell.folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --job-name=first -n2\n#SBATCH -t 10 --comment='it says $HOME'\n"
        'echo "hello $1 from $SLURM_JOB_NAME, $SLURM_NTASKS tasks, job $SLURM_JOB_ID"\necho oops >&2\npwd\n'
    )
    job = shell.submit("job.sh 'a b'")
    assert shell.done(job) == "COMPLETED"
    said = f"hello a b from first, 2 tasks, job {job}\noops\n{shell.folder}\n"
    assert shell.text(f"slurm-{job}.out") == said
    assert shell.state(job, "%j|%C|%D|%l|%k|%u|%P") == f"first|2|1|10:00|it says $HOME|{ME}|batch"
    row = f"sacct -n -P -X -j {job} -o JobName,State,ExitCode,AllocCPUS,SubmitLine"
    until(lambda: shell(row) == "first|COMPLETED|0:0|2|sbatch job.sh a b\n")
    assert shell(f"sacct -n -P -j {job} -o JobID,JobName").splitlines() == [f"{job}|first", f"{job}.batch|batch"]
    for clusters in ("--clusters all", "-M -1", "-L", "-M phalanx,other"):
        assert shell(f"sacct -n -P -X -j {job} {clusters} -o JobIdRaw,State") == f"{job}|COMPLETED\n"
    assert shell(f"sacct -n -P -X -j {job} -M other") == ""


def test_commands_print_the_same_with_their_service_and_without(shell: Shell) -> None:
    until((shell.up.data / "slurm-commands.sock").exists)
    (shell.folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -n2 --comment=ä\ntrue\n")
    job = shell.submit("-H job.sh 'a b'")
    for line in (
        "squeue", "squeue --json", "sinfo -N -l | tail -n +2", f"scontrol show job {job}", "scontrol show job 99",
        "scontrol show node", "sacct -X -n | tail -n 0", "sprio", "sshare -a", "sacctmgr show user", "squeue --none",
        "sbatch missing.sh", "sbatch -n x job.sh", "echo echo | sbatch -n 2", "scancel 0", "srun --none",
    ):  # fmt: skip
        with_service, without = shell.call(line), shell.call(line, PHALANX_SLURM_SOCKET="")
        found = (with_service.returncode, with_service.stdout, with_service.stderr)
        assert found == (without.returncode, without.stdout, without.stderr), line


def test_a_job_that_starts_at_once_makes_few_writes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight, and the draw of a number now and then. A busy machine may see the Job and its pod running, which is one
    write more of each."""
    namespace, kubeconfig = "counted", json.loads((shell.up.data / "kubeconfig").read_text())
    kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    (own := shell.folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(own))
    api = ApiClient.open()
    made = api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    paths = {kind: f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("pods", "secrets", "events")}
    paths["jobs"] = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    shell("sbatch -W -o /dev/null --wrap true", KUBECONFIG=str(own))
    until(lambda: len(api.get(paths["events"])["items"]) > 0)

    def written(kind: str) -> int:
        since = made["metadata"]["resourceVersion"]
        seen = api.call("GET", paths[kind], watch="true", resourceVersion=since, timeoutSeconds="1")
        return seen.count(b'"type":"ADDED"') + seen.count(b'"type":"MODIFIED"')

    assert [one["reason"] for one in api.get(paths["events"])["items"]] == ["Scheduled"]
    assert written("events") == 1
    assert written("secrets") == 1
    assert written("pods") in (3, 4)  # made, bound, (running,) ended
    assert written("jobs") in (3, 4)  # made, started, (running,) ended


def test_the_first_node_of_a_job_is_where_its_script_listens(shell: Shell) -> None:
    """What torchrun and others ask of `scontrol show hostnames`, to see which of them is to be the server."""
    (shell.folder / "ask.py").write_text(
        "import socket, sys\n"
        "names = sys.argv[1], socket.gethostname()\n"
        "first, own = ({one[4][0] for one in socket.getaddrinfo(name, None)} for name in names)\n"
        "print(own <= first, first, own)\n"
    )
    line = f"{sys.executable} ask.py $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
    shell(f"sbatch -W -o said.txt --wrap '{line}'")
    assert shell.text("said.txt").startswith("True ")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_end_of_sbatch_wait_ends_no_job(shell: Shell, number: signal.Signals) -> None:
    around = {**shell.up.environment, "PATH": f"{shell.up.data}/bin:{os.environ['PATH']}"}
    words = ("sbatch", "--wait", "--parsable", "--wrap", "sleep 3000")
    with subprocess.Popen(words, cwd=shell.folder, env=around, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        job = waiting.stdout.readline().strip()
        shell.until(job, "RUNNING")
        waiting.send_signal(number)
        assert waiting.wait(120) != 0
    assert shell.state(job) == "RUNNING"


def test_exit_codes_signals_and_waiting(shell: Shell) -> None:
    assert shell.call("sbatch -W --wrap 'exit 7'").returncode == 7
    assert shell.call("sbatch -W --wrap true").returncode == 0
    job = shell.submit("--wrap 'kill -9 $$'")
    assert shell.done(job) == "FAILED"
    until(lambda: shell(f"sacct -n -P -X -j {job} -o State,ExitCode") == "FAILED|0:9\n")
    missing = shell.folder / "none.sh"
    missing.write_text("#!/no/such/interpreter\n")
    job = shell.submit("-o none.txt none.sh")
    assert shell.done(job) == "FAILED"
    assert "bad interpreter(/no/such/interpreter)" in shell.text("none.txt")


def test_steps_take_input_and_tell_their_ends_as_a_real_slurm_was_seen_to(shell: Shell) -> None:
    (shell.folder / "steps.sh").write_text(
        "#!/bin/bash\n#SBATCH -n2 -o said.txt\necho hi | srun cat\nsrun -n1 ./none\nsrun -n1 bash -c 'kill -9 $$'\n"
        "srun -n1 bash -c 'echo $SLURM_DISTRIBUTION'\nsrun bash -c 'echo $SLURM_DISTRIBUTION' | sort -u\nkill $$\n"
    )
    job = shell.submit("steps.sh")
    assert shell.done(job) == "FAILED"
    assert shell.state(job, "%r") == "JobLaunchFailure"
    said = re.sub(r"(slurmstepd-|srun: error: )[^: ]+:", r"\1NODE:", shell.text("said.txt"))
    assert said.splitlines() == [
        *("hi", "hi"),
        f"slurmstepd-NODE: error: execve(): {shell.folder}/./none: No such file or directory",
        "srun: error: NODE: task 0: Exited with exit code 2",
        "srun: error: NODE: task 0: Killed",
        f"srun: Force Terminated StepId={job}.2",
        *("cyclic", "block"),
    ]
    held = shell.submit("-H --wrap true")
    shell.until(held, "PENDING")
    until(lambda: shell(f"squeue -h -j {held} -o %r") == "JobHeldUser\n")
    shell(f"scancel {held}")
    until(lambda: shell.state(held, "%T %r") == "CANCELLED JobHeldUser")


def test_output_patterns(shell: Shell) -> None:
    job = shell.submit("-J pat -o 'o-%j-%x-%u-%%.txt' -e 'e-%8j.txt' --wrap 'echo out; echo err >&2'")
    assert shell.done(job) == "COMPLETED"
    assert shell.text(f"o-{job}-pat-{ME}-%.txt") == "out\n"
    assert shell.text(f"e-{job:08}.txt") == "err\n"
    both = shell.submit("-o both.txt --wrap 'echo one'")
    shell.done(both)
    shell.done(shell.submit("-o both.txt --open-mode=append --wrap 'echo two'"))
    assert shell.text("both.txt") == "one\ntwo\n"


def test_an_array_with_a_throttle(shell: Shell) -> None:
    job = shell.submit(
        "-J arr -a 1-4%2 -o %A_%a.txt --wrap 'echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT; sleep 3000'"
    )
    until(lambda: shell(f"squeue -h -j {job} -t R -o %i | sort").split() == [f"{job}_1", f"{job}_2"])
    until(lambda: shell(f"squeue -h -j {job} -t PD -o '%i %r'") == f"{job}_[3-4%2] JobArrayTaskLimit\n")
    assert len(shell(f"squeue -h -r -j {job}").splitlines()) == 4
    shell(f"scancel {job}_1")
    shell.until(f"{job}_3", "RUNNING")
    third = shell.folder / f"{job}_3.txt"
    until(lambda: third.exists() and third.read_text() == "3 of 4\n")
    shell(f"scancel {job}")
    until(lambda: shell("squeue -h --me") == "")


def test_dependencies(shell: Shell) -> None:
    first = shell.submit("-H --wrap 'exit 1'")
    ok, notok = shell.submit(f"-d afterok:{first} --wrap true"), shell.submit(f"-d afternotok:{first} --wrap true")
    assert shell.state(ok, "%E %r") == f"afterok:{first}(unfulfilled) Dependency"
    shell(f"scontrol release {first}")
    assert shell.done(notok) == "COMPLETED"
    until(lambda: shell.state(ok, "%T %r") == "PENDING DependencyNeverSatisfied")
    shell(f"scontrol update job {ok} dependency=")
    assert shell.done(ok) == "COMPLETED"
    assert shell.done(shell.submit("-d afterok:999999 --wrap true")) == "COMPLETED"  # a job that nobody has is met
    assert "Job dependency problem" in shell.fails("sbatch -d afterok:nobody --wrap true")


def test_hold_release_update_and_show(shell: Shell) -> None:
    job = shell.submit("-H -J held -t 5 --wrap 'sleep 3000'")
    assert shell.state(job, "%T %r") == "PENDING JobHeldUser"
    shell(f"scontrol update JobId={job} TimeLimit=20 Name=other Comment='two words'")
    page = shell(f"scontrol show job {job}")
    assert f"JobId={job} JobName=other" in page
    assert "TimeLimit=00:20:00" in page
    assert "Comment=two words" in page
    shell(f"scontrol release {job}")
    shell.until(job, "RUNNING")
    node = shell.state(job, "%N")
    assert f"BatchHost={node}" in shell(f"scontrol -o show job {job}")
    assert shell(f"scontrol hold {job}") == ""  # what runs goes on
    assert shell(f"scontrol write batch_script {job} -").endswith("\nsleep 3000\n")
    assert "Invalid job id specified" in shell.fails("scontrol show job 999999")


def test_what_a_waiting_job_asks_for_is_changed_and_is_what_it_gets(shell: Shell) -> None:
    [node] = shell("sinfo -h -N -o %N").split()
    job = shell.submit(
        "-H -J held -t 5 -o asked.txt --wrap 'echo $SLURM_CPUS_ON_NODE $SLURM_JOB_PARTITION; sleep 3000'"
    )
    shell(f"scontrol update jobid={job} numcpus=3 minmemorynode=300 reqnodelist={node} mailuser=x")
    page = shell(f"scontrol show job {job}")
    assert "NumCPUs=3" in page
    assert f"ReqNodeList={node}" in page
    assert "MinMemoryNode=300M" in page
    shell(f"scontrol update jobid={job} reqnodelist=")
    assert "ReqNodeList=(null)" in shell(f"scontrol show job {job}")
    shell(f"scontrol release {job}")
    shell.until(job, "RUNNING")
    assert shell("sinfo -h -o '%C'").strip() == "3/1/0/4"  # the pod asks for what was changed
    until(lambda: (shell.folder / "asked.txt").exists() and shell.text("asked.txt").split() == ["3", "batch"])
    assert "no longer pending execution" in shell.fails(f"scontrol update jobid={job} numcpus=2")
    shell(f"scancel {job}")
    assert "Invalid OverSubscribe value: x" in shell.fails("scontrol update jobid=999999 shared=x")
    assert "Update of this parameter is not supported" in shell.fails("scontrol update jobid=1 cluster=x")
    job = shell.submit("-H -t 5 --wrap true")
    refused = {
        "partition=nowhere": "Invalid partition name specified", "reqnodelist=nowhere": "Invalid node name specified",
        "features=nothing": "Invalid feature specification", "gres=foo:1": "Invalid generic resource (gres)",
        "numtasks=0": "Task count specification invalid", "timemin=50": "Invalid time-min specification",
        "numcpus=4-2": "Invalid NumCPUs value: 4-2", "licenses=x": "Invalid license specification",
        "endtime=now": "Job is not running", "numnodes=2": "one node cannot become several",
    }  # fmt: skip
    for change, text in refused.items():
        assert text in shell.fails(f"scontrol update jobid={job} {change}"), change
    assert shell.call(f"scontrol update jobid={job} numnodes=x").returncode == 0  # as Slurm ends


def test_steps_are_in_the_accounts_while_their_job_runs(shell: Shell) -> None:
    job = shell.submit("--wrap 'srun -J first true; srun -J second sleep 3000'")
    lines = [f"{job}.0|first|COMPLETED", f"{job}.1|second|RUNNING"]
    until(lambda: shell(f"sacct -n -P -j {job} -o JobID,JobName,State").splitlines()[2:] == lines)
    assert shell(f"sacct -n -P -j {job}.1 -o JobID,End") == f"{job}.1|Unknown\n"


def test_cancelled_jobs_are_cancelled_and_stay_in_the_accounts(shell: Shell) -> None:
    job = shell.submit("-o out.txt --wrap 'trap \"echo term; exit 3\" TERM; echo up; while :; do sleep 0.1; done'")
    until(lambda: (shell.folder / "out.txt").exists() and shell.text("out.txt") == "up\n")
    other = shell.submit("-H --wrap true")
    shell(f"scancel {job} {other}")
    assert (shell.done(job), shell.done(other)) == ("CANCELLED", "CANCELLED")
    until(lambda: shell(f"sacct -n -P -X -j {job} -o State") == f"CANCELLED by {os.getuid()}\n")
    until(lambda: "term" in shell.text("out.txt"))
    assert f"error: *** JOB {job} ON" in shell.text("out.txt")


def test_a_time_limit_ends_a_job_and_another_is_warned_before_its_own(shell: Shell) -> None:
    (shell.folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -t 1 --signal=B:USR1@50 -o out.txt\ntrap 'echo warned; exit 7' USR1\n"
        "while :; do sleep 0.1; done\n"
    )
    warned = shell.submit("job.sh")  # 10 s after its start: it has its trap by then
    job = shell.submit("-H --wrap 'sleep 3000'")
    shell.up.kubectl("annotate", "--overwrite", "job", f"slurm-{job}", "phalanx.dev/time-limit=1s")
    shell(f"scontrol release {job}")
    assert shell.done(job) == "TIMEOUT"
    assert shell.done(warned) == "FAILED"
    assert shell.text("out.txt") == "warned\n"


def test_the_environment(shell: Shell) -> None:
    job = shell.submit("--export=ALL,ONLY='$(id) x' -o env.txt -c2 --mem=100M --wrap 'env; exit 0'")
    assert shell.done(job) == "COMPLETED"
    found = dict(line.split("=", 1) for line in shell.text("env.txt").splitlines() if "=" in line)
    node = shell.state(job, "%N")
    expected = {
        "ONLY": "$(id) x", "SLURM_JOB_ID": str(job), "SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_ON_NODE": "2",
        "SLURM_MEM_PER_NODE": "100", "SLURM_JOB_NODELIST": node, "SLURMD_NODENAME": node,
        "SLURM_SUBMIT_DIR": str(shell.folder), "SLURM_JOB_PARTITION": "batch", "SLURM_NNODES": "1",
    }  # fmt: skip
    assert {name: found.get(name) for name in expected} == expected
    assert not [name for name in found if name.startswith("PHALANX_")]


def test_steps_run_in_their_job(shell: Shell) -> None:
    (shell.folder / "steps.sh").write_text(
        "#!/bin/bash\n#SBATCH -n 3 -o steps.txt\nsrun -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS' | sort\n"
        "srun -n1 false\necho $?\nsrun -n9 true\necho $?\n"
    )
    job = shell.submit("steps.sh")
    assert shell.done(job) == "COMPLETED"
    assert [line for line in shell.text("steps.txt").splitlines() if "srun:" not in line] == [
        *("0: 0 of 3", "1: 1 of 3", "2: 2 of 3"),
        *("1", "1"),
    ]


def test_srun_and_salloc_have_allocations_of_their_own(shell: Shell) -> None:
    done = shell.call("srun -n2 -l sh -c 'echo $SLURM_PROCID $SLURM_NTASKS; exit $SLURM_PROCID'")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (1, ["0: 0 2", "1: 1 2"])
    assert "task 1: Exited with exit code 1" in done.stderr
    assert shell("echo typed | srun cat") == "typed\n"
    done = shell.call(f"salloc -n2 sh -c 'echo $SLURM_JOB_ID; srun -l echo hi; {TERMINAL} srun -n1 --pty tty; exit 4'")
    number, *lines = done.stdout.replace("\r", "").splitlines()
    assert (done.returncode, sorted(lines[:2])) == (4, ["0: hi", "1: hi"])
    assert lines[2].startswith("/dev/pts/")
    assert f"Granted job allocation {number}" in done.stderr
    row = f"sacct -n -P -j {number} -o JobID,JobName,NTasks,State,ExitCode"
    expected = ["interactive||FAILED|4:0", "echo|2|COMPLETED|0:0", "tty|1|COMPLETED|0:0"]
    until(lambda: [line.partition("|")[2] for line in shell(row).splitlines()] == expected)


def test_an_allocation_ends_with_whoever_holds_it(shell: Shell) -> None:
    around = {**shell.up.environment, "PATH": f"{shell.up.data}/bin:{os.environ['PATH']}"}
    begun = shell.folder / "begun"  # before its command runs, salloc does not hold what it waits for
    command = ["sh", "-c", f"touch {begun} && exec sleep 3000"]
    held = subprocess.Popen(["salloc", "-J", "left", *command], env=around, cwd=shell.folder)
    try:
        until(begun.exists)
        assert shell("squeue -h -n left -o %T") == "RUNNING\n"
    finally:
        held.send_signal(signal.SIGKILL)
        held.wait()
    until(lambda: shell("squeue -h -n left -o %T") == "")


@pytest.mark.long
def test_whoever_does_not_know_the_key_is_not_heard(shell: Shell) -> None:
    from phalanx.slurm.jobs.steps.pods.channel import RUN, Broken, Channel

    shell("salloc -Q --no-shell -J open")
    [number] = shell("squeue -h -n open -o %A").split()
    address = shell.up.kubectl("get", "pods", "-l", f"slurm.phalanx.dev/number={number}",
                               "-o", "jsonpath={.items[0].status.podIP}")  # fmt: skip
    shell(f"srun --jobid={number} true")  # its daemon is up
    with socket.create_connection((address.strip(), 6818)) as connection, pytest.raises(Broken):
        Channel(connection, "another", server=False).send(RUN, b"{}")
    assert shell(f"srun --jobid={number} echo on") == "on\n"
    shell(f"scancel {number}")


def test_signals_suspending_and_requeueing(shell: Shell) -> None:
    (shell.folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -o out.txt --open-mode=append\ntrap 'echo usr1' USR1\n"
        'echo "run ${SLURM_RESTART_COUNT:-0}"\nwhile :; do sleep 0.1; done\n'
    )
    job = shell.submit("job.sh")
    out = shell.folder / "out.txt"
    until(lambda: out.exists() and out.read_text() == "run 0\n")
    shell(f"scancel -s USR1 -b {job}")
    until(lambda: out.read_text() == "run 0\nusr1\n")
    if os.getuid() == 0:  # only an operator may
        shell(f"scontrol suspend {job}")
        assert shell.state(job) == "SUSPENDED"
        shell(f"scancel -s USR1 -b {job}")
        shell(f"scontrol resume {job}")
        assert shell.state(job) == "RUNNING"
        until(lambda: out.read_text() == "run 0\nusr1\nusr1\n")
    shell(f"scontrol requeue {job}")
    assert shell.state(job, "%T %r") == "PENDING BeginTime"  # for two minutes, or until it is told otherwise:
    shell(f"scontrol update job {job} StartTime=now+1day")
    assert "Restarts=1" in shell(f"scontrol show job {job}")
    until(lambda: "DUE TO JOB REQUEUE" in out.read_text())
    until(lambda: shell(f"sacct -n -X -P -D -j {job} -o State") == "REQUEUED\n")
    shell(f"scontrol update job {job} StartTime=now")
    until(lambda: out.read_text().endswith("run 1\n"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes reservations")
@pytest.mark.long
def test_a_reservation_keeps_others_out(shell: Shell) -> None:
    [node] = shell("sinfo -h -N -o %N").split()
    words = "starttime=now duration=10 users=nobody flags=maint"
    shell(f"scontrol create reservation reservationname=Night_1 nodes={node} {words}")
    assert f"Nodes={node}" in shell("scontrol show reservation Night_1")
    assert "Access denied to requested reservation" in shell.fails("sbatch --reservation=Night_1 --wrap true")
    assert "Requested reservation is invalid" in shell.fails("sbatch --reservation=no --wrap true")
    shell(f"scontrol update reservationname=Night_1 users=nobody,{ME}")
    assert shell("srun --reservation=Night_1 echo in") == "in\n"  # so the scheduler has seen it
    job = shell.submit("--wrap true")
    assert shell("srun --reservation=Night_1 echo in") == "in\n"  # and looked at that job
    assert shell.state(job) == "PENDING"
    shell("scontrol delete reservation=Night_1")
    assert shell.done(job) == "COMPLETED"


def test_a_partition_goes_down_and_up_and_its_job_starts(shell: Shell) -> None:
    shell("scontrol update partitionname=batch state=down")
    job = shell.submit("-o down.out --wrap true")
    assert (shell.state(job, "%r"), shell("sinfo -h -O available:4")) == ("PartitionDown", "down\n")
    assert (shell("scontrol update partitionname=batch state=up"), shell.done(job)) == ("", "COMPLETED")


def test_what_runs_on_a_node_that_goes_down_waits_again(shell: Shell) -> None:
    [node] = shell("sinfo -h -N -o %N").split()
    shell.until(job := shell.submit("-o again.out --wrap 'sleep 3000'"), "RUNNING")
    shell(f"scontrol update nodename={node} state=down reason=broken")
    assert (shell("sinfo -h -o '%t %E'").strip(), shell.state(job, "%T %r")) == ("down broken", "PENDING BeginTime")
    shell(f"scontrol update nodename={node} state=idle")
    shell(f"scancel {job}")


def test_sinfo_shows_what_is_used_and_what_is_drained(shell: Shell) -> None:
    [node] = shell("sinfo -h -N -o %N").split()
    assert shell("sinfo -h -o '%P %a %l %D %t'").strip() == "batch* up infinite 1 idle"
    job = shell.submit("-c 3 --wrap 'sleep 3000'")
    shell.until(job, "RUNNING")
    assert shell("sinfo -h -o '%t %C'").strip() == "mix 3/1/0/4"
    assert "specify a reason" in shell.fails(f"scontrol update nodename={node} state=drain")
    shell(f"scontrol update nodename={node} state=drain reason='new disk'")
    assert shell("sinfo -h -o %t").strip() == "drng"
    assert "new disk" in shell("sinfo -R")
    shell(f"scontrol update nodename={node} state=resume")
    assert shell("sinfo -h -o %t").strip() == "mix"


def test_json_and_what_is_refused(shell: Shell) -> None:
    job = shell.submit("-H -J j --wrap true")
    [found] = json.loads(shell("squeue --json"))["jobs"]
    assert (found["job_id"], found["name"], found["job_state"], found["state_reason"]) == (
        job,
        "j",
        "PENDING",
        "JobHeldUser",
    )
    assert "invalid --profile=x option" in shell.fails("sbatch --profile=x --wrap true")
    assert f"Job is pending execution for job {job}" in shell.fails(f"scontrol requeue {job}")
    assert "top is not supported" in shell.fails(f"scontrol top {job}")
    assert shell.fails("squeue --bogus").startswith("squeue: unrecognized option '--bogus'")
    assert "Unable to open file nothing.sh" in shell.fails("sbatch nothing.sh")


def test_numbers_are_given_once_to_many_at_once(shell: Shell) -> None:
    many = " & ".join(["sbatch -H --parsable --wrap true >> numbers.txt"] * 8)
    shell(f"{many} & wait")
    numbers = sorted(map(int, shell.text("numbers.txt").split()))
    assert len(set(numbers)) == 8
    assert numbers[-1] - numbers[0] == 7


def test_the_scripts_secret_goes_with_its_job(shell: Shell) -> None:
    job = shell.submit("-H --wrap true")
    assert f"slurm-{job}" in shell.up.kubectl("get", "secrets")
    shell(f"scancel {job}")
    until(lambda: f"slurm-{job}" not in shell.up.kubectl("get", "secrets"))


def test_a_command_answers_in_a_moment(shell: Shell) -> None:
    """No figure is asserted: it is held that nothing heavy is imported."""
    code = "import sys; from phalanx.slurm.main import main; main('squeue'); print(*sys.modules, file=sys.stderr)"
    import sys

    done = shell.call(f"{sys.executable} -c {shlex.quote(code)}")
    heavy = {"asyncio", "sqlalchemy", "numpy", "rich", "cyclopts", "aiohttp", "phalanx.kube", "phalanx.core"}
    assert not heavy & set(done.stderr.split())


def test_a_site_of_slurms_is_taken_over(shell: Shell) -> None:
    (shell.folder / "slurm.conf").write_text("AuthType=auth/munge\nPartitionName=b Nodes=ALL Default=YES MaxTime=60\n")
    (shell.folder / "dump.cfg").write_text(
        "Cluster - 'old'\nParent - 'root'\nAccount - 'lab':Fairshare=7:MaxJobs=3\nAccount - 'other'\nParent - 'lab'\n"
        f"Account - 'vision':Fairshare=2\nParent - 'vision'\nUser - '{ME}':DefaultAccount='vision':Fairshare=5\n"
    )
    phalanx = f"{shlex.quote(str(Path(sys.executable).with_name('phalanx')))} import slurm --conf slurm.conf"
    try:
        assert "nothing was changed" in shell.call(f"{phalanx} --accounts dump.cfg --dry-run").stderr
        assert "lab" not in shell("sacctmgr -n -P list account")
        told = json.loads(shell(f"{phalanx} --accounts dump.cfg --json"))
        assert [one["text"] for one in told if not one["taken"]] == ["AuthType=auth/munge"]
        assert shell("sacctmgr -n -P list user").splitlines() == [f"{ME}|vision|Administrator"]
        queue = json.loads(shell("kubectl get queue vision -o json"))["spec"]
        assert (queue["parent"], queue["weight"], queue["accounts"]) == ("lab", 2, {ME: 5})
        cluster = shell("sacctmgr -n -P list cluster format=cluster").strip()
        shell(f"sacctmgr dump {cluster} file=again.cfg")
        assert "Account - 'lab':Description='lab':Organization='lab':Fairshare=7:MaxJobs=3\n" in shell.text("again.cfg")
        assert shell("sacctmgr -i load again.cfg").startswith(" 0 accounts added")
    finally:
        shell("kubectl delete configmap -n kube-system phalanx-slurm --ignore-not-found")
        shell("kubectl delete queue vision lab other --ignore-not-found")


def test_a_job_with_long_words_is_in_the_accounting(shell: Shell) -> None:
    comment = "because " * 120
    job = shell.submit(f"--comment='{comment}' --wrap 'true # {comment}'")
    assert shell.done(job) == "COMPLETED"
    until(lambda: shell(f"sacct -n -X -P -j {job} -o State,Comment") == f"COMPLETED|{comment}\n")
    assert shell(f"sacct -n -X -P -j {job} -o JobID") == f"{job}\n"


def test_reports_of_what_was_used_and_what_the_scheduler_does(shell: Shell) -> None:
    job = shell.submit("-n2 --wrap 'sleep 1'")
    assert shell.done(job) == "COMPLETED"
    until(lambda: "COMPLETED" in shell(f"sacct -n -X -j {job}"))
    start, end = "start=now-3hours", "end=now+3hours"
    used = shell(f"sreport -n -P -t Second cluster UserUtilizationByAccount {start} {end} users={ME}")
    cluster, login, _, account, seconds, energy = used.strip().split("|")
    assert (cluster, login, account, energy) == ("phalanx", ME, "default", "0")
    assert int(seconds) >= 2
    words = shell(f"sreport -n -P cluster Utilization {start} {end} format=cluster,down").split("|")
    assert words == ["phalanx", "0\n"]
    said = shell.call("sdiag")
    assert "set PHALANX_METRICS to the address" in said.stderr
    assert re.search(r"Jobs completed: [1-9]", said.stdout)
    assert "cannot be read" in shell.call("PHALANX_METRICS=http://127.0.0.1:1 sdiag").stderr


def test_a_heterogeneous_job_starts_whole_steps_over_its_components_and_ends_with_its_script(shell: Shell) -> None:
    (shell.folder / "het.sh").write_text(
        "#!/bin/bash\n#SBATCH -J het -n1 -t5\n#SBATCH hetjob\n#SBATCH -n2\n"
        "srun -l --het-group=0,1 bash -c 'echo $SLURM_PROCID $SLURM_NTASKS $SLURM_NODEID $SLURM_HET_SIZE'\n"
        "srun -n1 echo first : -n2 echo second\necho $SLURM_JOB_ID_HET_GROUP_1\n"
    )
    job = shell.submit("het.sh")
    until(lambda: shell(f"squeue -h -t all -j {job} -o '%i %T'") == f"{job}+0 COMPLETED\n{job}+1 COMPLETED\n")
    said = shell.text(f"slurm-{job}.out").splitlines()
    assert sorted(said[:3]) == ["0: 0 3 0 2", "1: 1 3 1 2", "2: 2 3 1 2"]
    assert (sorted(said[3:6]), said[6:]) == (["first", "second", "second"], [str(job + 1)])
    row = f"sacct -n -P -j {job} -o JobID,State"
    steps = "".join(f"{job}+1.{step}|COMPLETED\n" for step in (0, 1))
    first = f"{job}+0|COMPLETED\n{job}+0.batch|COMPLETED\n{job}+0.0|COMPLETED\n{job}+0.1|COMPLETED\n"
    until(lambda: shell(row) == f"{first}{job}+1|COMPLETED\n{steps}")
    waiting = shell.submit("-H -n1 : -n3 het.sh")
    assert "individual component of heterogeneous job" in shell.fails(f"scancel {waiting}+1")
    shell(f"scancel {waiting}")
    until(lambda: shell("squeue -h") == "")


def test_test_only_says_when_and_where_a_job_would_start(shell: Shell) -> None:
    said = shell.call("sbatch --test-only -n2 --wrap true").stderr
    node = socket.gethostname()
    assert re.fullmatch(
        rf"sbatch: Job \d+ to start at \S+ using 2 processors on nodes {node} in partition batch\n", said
    )
    job = shell.submit("-n4 -t 10 --wrap 'sleep 3000'")
    shell.until(job, "RUNNING")
    later = shell.call("sbatch --test-only -n2 --wrap true").stderr
    ends = shell.state(job, "%e")
    assert f"to start at {ends} using" in later
    shell(f"scancel {job}")


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes nodes and accounts")
def test_what_is_configured_and_what_root_alone_changes(shell: Shell) -> None:
    [node] = shell("sinfo -h -N -o %N").split()
    shell(f"scontrol reboot ASAP nextstate=resume reason=kernel {node}")
    assert shell("sinfo -h -o '%t %E'").strip() == "drain kernel"
    events = shell("sacctmgr -n -P show event format=nodename,state").splitlines()
    assert [line.split("|")[:2] for line in events] == [["", ""], [node, "DRAIN"]]  # the first is of the cluster
    shell(f"scontrol update nodename={node} state=resume")
    config = dict(line.split("= ", 1) for line in shell("scontrol show config").splitlines()[1:] if "= " in line)
    assert (config["MinJobAge               "], config["PriorityType            "]) == ("300 sec", "priority/basic")
    assert shell("scontrol show licenses") == "No licenses configured in Slurm.\n"
    assert shell("sacctmgr -n -P show tres").splitlines()[-1] == "gres|gpu|1001"
    assert "U = someone" in shell("sacctmgr -i add user someone wckey=k1")
    assert shell("sacctmgr -n -P show wckey").splitlines() == ["k1|phalanx|someone"]
    assert "Invalid wckey specification" in shell.fails("sbatch --wckey=k1 --wrap true")
    shell("sacctmgr -i delete user someone wckey=k1")
    assert shell("sacctmgr -n -P show wckey") == ""
