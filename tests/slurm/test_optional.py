"""Rare options: their effect, and refused values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import FEATURE, Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.asked.optional import read_optional

ASK = Ask(name="j", user="ada", uid=1, gid=1, group="g", account="lab", partition="batch", gpus_per_node=2)
SITE = Site(mail_program="/bin/true", licenses={"matlab": 3})


def asked(**said: str) -> Ask:
    ask = msgspec.structs.replace(ASK)
    read_optional(ask, {name.replace("_", "-"): text for name, text in said.items()}, SITE)
    return ask


def refused(**said: str) -> str:
    with pytest.raises(Usage) as error:
        asked(**said)
    return error.value.text


def test_what_they_ask_is_in_the_job() -> None:
    assert asked(mail_type="END,FAIL").mail == "END,FAIL"
    assert asked(mail_type="ALL", mail_user="x@y").mail == "INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"
    assert (asked(mail_type="end").mail_user, asked(mail_type="NONE").mail) == ("ada", "")
    assert (asked(tmp="1G").tmp_mib, asked(time_min="3").least_min, asked(prefer="fast").preferred) == (1024, 3, "fast")
    assert asked(mail_type="TIME_LIMIT").mail == "TIME_LIMIT"
    assert asked(exclusive="user").shown == {"OverSubscribe": "USER"}
    taken = asked(licenses="matlab:1")
    assert (taken.licenses, taken.cap, taken.cap_group, taken.cap_reason) == ("matlab", 3, "license-matlab", "Licenses")
    boxed = asked(container_image="docker://nvcr.io#nvidia/pytorch:24.01", container_mounts="/data:/mnt:ro,/a:/b")
    assert (boxed.image, boxed.mounts) == ("nvcr.io/nvidia/pytorch:24.01", ["/data:/mnt:ro", "/a:/b"])


def test_what_cannot_be_is_refused_in_slurms_words_where_it_has_some() -> None:
    assert refused(mail_type="END,FOO") == "sbatch: error: Invalid --mail-type specification"
    assert refused(licenses="nope") == "sbatch: error: Batch job submission failed: Invalid license specification"
    assert "Phalanx supports one license for a job" in refused(licenses="matlab:2")
    assert refused(reboot="").startswith("sbatch: error: rebooting of nodes is only allowed for admins\n")
    assert "invalid format: data" in refused(container_image="x", container_mounts="data")


def test_the_pod_has_the_image_the_mounts_the_disk_and_the_softer_wish() -> None:
    ask = asked(container_image="busybox", container_mounts="/data:/mnt:ro", tmp="2G", prefer="fast&big")
    pod = manifest.job(7, ask, SITE, {}, [], ask.image)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (container["image"], container["resources"]["requests"]["ephemeral-storage"]) == ("busybox", "2048Mi")
    assert container["volumeMounts"] == [{"name": "mount-0", "mountPath": "/mnt", "readOnly": True}]
    assert pod["volumes"] == [{"name": "mount-0", "hostPath": {"path": "/data"}}]
    [soft] = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    keys = [each["key"] for each in soft["preference"]["matchExpressions"]]
    assert keys == [f"{FEATURE}fast", f"{FEATURE}big"]


@pytest.mark.parametrize(
    ("tasks", "each", "said_nodes", "shown"),
    [(5, 1, 1, 1), (2, 4, 0, 2), (4, 4, 0, 1), (1, 12, 0, 1), (7, 2, 0, 2), (2, 16, 0, 2), (4, 2, 2, 3)],
)
def test_nodes_of_a_job_that_waits_are_those_that_slurm_guesses(
    tasks: int, each: int, said_nodes: int, shown: int
) -> None:
    nodes = said_nodes or -(-tasks * each // 16)
    ask = msgspec.structs.replace(ASK, tasks=tasks, cpus_per_task=each, node_cpus=16, nodes=nodes)
    ask.said_nodes = said_nodes > 0
    assert ask.shown_nodes == shown


def test_slurm_conf_says_licences_mail_prolog_and_sockets() -> None:
    text = (
        "Licenses=matlab:3,ansys\nMailProg=/usr/bin/mail\nProlog=/etc/p\nEpilog=/etc/e\n"
        "NodeName=cn[1-2] CPUs=16 Sockets=2 CoresPerSocket=8"
    )
    site, told = read_conf(text)
    assert site.licenses == {"matlab": 3, "ansys": 1}
    assert (site.mail_program, site.prolog, site.epilog) == ("/usr/bin/mail", "/etc/p", "/etc/e")
    assert site.sockets == {"cn1": "2:8:1", "cn2": "2:8:1"}
    assert [one.text for one in told if not one.taken] == ["NodeName=cn[1-2] cpus=16 sockets=2 corespersocket=8"]


def launched(folder: Path, script: str, **words: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {
        "PATH": "/usr/bin:/bin", "TMPDIR": str(folder), "PHALANX_LAUNCHER": manifest.launcher(),
        "PHALANX_SCRIPT": f"#!/bin/sh\n{script}\n", "PHALANX_WORKDIR": str(folder), "SLURM_JOB_NAME": "j",
        "PHALANX_STDOUT": str(folder / "out"), "PHALANX_STDIN": "/dev/null", "SLURM_JOB_ID": "1",
        "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "n1", **words,
    }  # fmt: skip
    line = ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_launcher_sends_mail_and_runs_prolog_and_epilog(tmp_path: Path) -> None:
    for name in ("mail", "prolog", "epilog"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/said\n')
        (tmp_path / name).chmod(0o755)
    around = {f"PHALANX_{name.upper()}": str(tmp_path / name) for name in ("mail", "prolog", "epilog")}
    mail = {"PHALANX_MAIL_TO": "ada", "PHALANX_MAIL_WHEN": "BEGIN,FAIL"}
    script = f"echo script >> {tmp_path}/said; env | grep -c PHALANX_ ; exit 3"
    assert launched(tmp_path, script, **around, **mail).returncode == 3
    lines = (tmp_path / "said").read_text().splitlines()
    begin = "mail -s Slurm Job_id=1 Name=j Began ada"
    assert sorted([lines[1], lines[2]]) == [begin, "script"]
    assert (lines[0], lines[4]) == ("prolog ", "epilog ")
    failed = r"mail -s Slurm Job_id=1 Name=j Failed, Run time \d\d:\d\d:\d\d, FAILED, ExitCode 3 ada"
    assert re.fullmatch(failed, lines[3])
    assert (tmp_path / "out").read_text() == "0\n"


def test_a_prolog_that_fails_ends_the_job_before_its_script(tmp_path: Path) -> None:
    done = launched(tmp_path, "echo ran", PHALANX_PROLOG="/bin/false")
    assert (done.returncode, (tmp_path / "out").exists()) == (1, False)
    assert "prolog failed: /bin/false" in done.stderr
