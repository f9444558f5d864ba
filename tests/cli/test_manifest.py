"""Manifests from files and from a command line: what is made of them, and which line is wrong."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from phalanx.cli.files.manifest import (
    Document,
    ManifestRequest,
    environment,
    job,
    name_of,
    queued,
    read_files,
    refusal,
    waits_for_session,
)
from phalanx.client.connection import ApiRefusal
from phalanx.errors import PhalanxError

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: host
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    return file


def error_of(tmp_path: Path, text: str) -> str:
    with pytest.raises(PhalanxError) as error:
        read_files([written(tmp_path, text)])
    return str(error.value).replace(str(tmp_path) + "/", "")


def test_a_job_from_a_file_gets_what_it_needs_to_be_queued(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB)])
    obj = queued(document, None)
    assert obj["spec"]["suspend"] is True
    assert obj["metadata"]["labels"] == {"phalanx.dev/queue": "default"}
    assert obj["spec"]["template"]["spec"]["schedulerName"] == "phalanx"


def test_the_queue_of_the_file_stands_unless_the_command_line_says_another(tmp_path: Path) -> None:
    labelled = JOB.replace("  name: train\n", "  name: train\n  labels: {phalanx.dev/queue: research}\n")
    file = written(tmp_path, labelled)
    assert queued(read_files([file])[0], None)["metadata"]["labels"] == {"phalanx.dev/queue": "research"}
    assert queued(read_files([file])[0], "urgent")["metadata"]["labels"] == {"phalanx.dev/queue": "urgent"}


def test_other_objects_are_sent_as_they_are(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    [document] = read_files([written(tmp_path, text)])
    assert queued(document, "research") == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}


def test_a_job_for_another_scheduler_is_refused_at_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, JOB.replace("      restartPolicy: Never\n", "      schedulerName: volcano\n"))
    with pytest.raises(PhalanxError, match=r"job\.yaml:8: schedulerName is 'volcano'"):
        queued(read_files([file])[0], None)


def test_several_documents_and_lists_are_read_in_order(tmp_path: Path) -> None:
    listing = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: b}}\n"
        "- apiVersion: v1\n  kind: A\n  metadata: {name: c}\n"
    )
    found = read_files([written(tmp_path, "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n" + listing)])
    assert [document.obj["metadata"]["name"] for document in found] == ["a", "b", "c"]
    assert found[2].place(("kind",)).endswith("job.yaml:10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c\n", "job.yaml:1: this is not YAML: mapping values are not allowed here. Nothing was created."),
        ("kind: Job\n", "job.yaml:1: apiVersion is missing. Nothing was created."),
        ("- 1\n", "job.yaml:1: an object is expected, not [1]."),
        ("", "job.yaml: the file has no objects."),
        (JOB.replace("  name: train\n", "  labels: {}\n"), "job.yaml:3: metadata.name is missing."),
        pytest.param(
            "a: " + "[" * 5000 + "]" * 5000,
            "job.yaml: too many levels are nested. Nothing was created.",
            marks=pytest.mark.slow,
        ),
        ("a: 2026-13-45\n", "job.yaml:1: this is not YAML: month must be in 1..12. Nothing was created."),
        ("a: !!bool x\n", "job.yaml:1: this is not YAML: 'x'. Nothing was created."),
        ("a: &a [*a]\n", "job.yaml:1: an alias is inside of its own anchor"),
        (JOB + "        image: other\n", "job.yaml:12: spec.template.spec.containers[0].image occurs twice (first in"),
    ],
)
def test_a_malformed_file_says_where(tmp_path: Path, text: str, message: str) -> None:
    assert error_of(tmp_path, text).startswith(message)


def test_a_job_without_a_template_says_where(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB.partition("  template")[0] + "  parallelism: 2\n")])
    with pytest.raises(PhalanxError, match=r"job\.yaml:5: spec\.template is missing"):
        queued(document, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            JOB.replace("  name: train", "  name: train\n  labels: [a]"),
            "job.yaml:5: metadata.labels is missing or not a",
        ),
        ("apiVersion: v1\nkind: List\nitems: 3\n", "job.yaml:3: items is not a list"),
    ],
)
def test_what_has_another_form_than_it_must_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PhalanxError, match=re.escape(said)):
        [queued(document, None) for document in read_files([written(tmp_path, text)])]


def test_labels_that_are_null_are_none(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB.replace("  name: train", "  name: train\n  labels:"))])
    assert queued(document, "lab")["metadata"]["labels"] == {"phalanx.dev/queue": "lab"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"cannot read .*none\.yaml: No such file or directory"):
        read_files([tmp_path / "none.yaml"])


def test_what_the_server_refuses_is_shown_at_its_line(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB)])
    cause = {"field": "spec.template.spec.containers[0].image", "message": "Required value", "reason": "Required"}
    error = ApiRefusal(422, "Invalid", "Job.batch is invalid: ...", {"causes": [cause]})
    assert "job.yaml:11: spec.template.spec.containers[0].image: Required value" in str(refusal(document, error))


def test_the_note_about_rules_that_were_not_checked_is_no_error(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB)])
    note = (
        "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation"
    )
    real = {"field": "spec.parallelism", "message": "Required value"}
    causes = [real, {"field": "<nil>", "message": note}]
    shown = str(refusal(document, ApiRefusal(422, "Invalid", "...", {"causes": causes})))
    assert shown.startswith("1 error(s);")
    assert "spec.parallelism: Required value" in shown
    assert "<nil>" not in shown
    alone = {"causes": [{"field": "<nil>", "message": "Invalid value: null: whole"}]}
    assert "<nil>: Invalid value: null: whole" in str(refusal(document, ApiRefusal(422, "Invalid", "...", alone)))


def test_a_field_that_the_server_does_not_know_is_shown_at_its_line(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB.replace("spec:\n  template", "spec:\n  paralelism: 2\n  template"))])
    error = ApiRefusal(400, "BadRequest", 'strict decoding error: unknown field "spec.paralelism"')
    assert "job.yaml:6: strict decoding error" in str(refusal(document, error))


# --- from a command line -------------------------------------------------------------------------------------------


def test_a_command_becomes_a_queued_job_without_a_shell() -> None:
    made = job(ManifestRequest(name="x", command=("echo", "$HOME; rm -rf /"), pods=3, cpu="2", memory="1Gi", gpu=1))
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["echo", "$HOME; rm -rf /"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert container["resources"]["limits"] == {"memory": "1Gi", "nvidia.com/gpu": "1"}
    assert made["spec"]["parallelism"] == made["spec"]["completions"] == 3
    assert made["spec"]["completionMode"] == "Indexed"
    assert made["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("text", "sent"), [("$HOME", "$HOME"), ("echo $$", "echo $$$"), ("$(id)", "$$(id)"), ("$$(id)", "$$$$(id)")]
)
def test_what_kubernetes_would_replace_is_escaped(text: str, sent: str) -> None:
    made = job(ManifestRequest(name="x", command=("echo", text), environment=(("A", text),)))
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert container["command"][1] == container["env"][0]["value"] == sent


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ManifestRequest(name="x", command=()), "there is no command to run"),
        (ManifestRequest(name="X_y", command=("a",)), "'X_y' cannot be the name of a Job"),
        (ManifestRequest(name="x", command=("a",), pods=0), "--pods 0: a job has at least one pod"),
        (
            ManifestRequest(name="x", command=("a",), pods=10**14),
            "--pods 100000000000000: a job has at least one pod, and at",
        ),
        (ManifestRequest(name="x", command=("a",), gpu=-1), "--gpu -1: the number of GPUs cannot be negative"),
        (ManifestRequest(name="x", command=("a",), queue="A!"), "'A!' cannot be the name of a queue"),
        (ManifestRequest(name="x", command=("a",), cpu="two"), "--cpu 'two' is not a quantity"),
        (ManifestRequest(name="x", command=("a",), memory="-1Gi"), "--memory '-1Gi' is negative"),
        (ManifestRequest(name="x", command=("a",), cpu="9" * 19), f"--cpu '{'9' * 19}' is more than any cluster has"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_created(request_: ManifestRequest, message: str) -> None:
    with pytest.raises(PhalanxError) as error:
        job(request_)
    assert str(error.value).startswith(message)


def test_a_job_is_named_after_its_program() -> None:
    assert name_of(["/usr/bin/python3.11", "-c", "pass"], "abcde") == "python3-abcde"
    assert name_of(["./Train_Model.sh"], "abcde") == "train-model-abcde"
    assert name_of(["---"], "abcde") == "job-abcde"


def test_environment_is_name_and_value() -> None:
    assert environment(["A=1", "B=x=y"]) == (("A", "1"), ("B", "x=y"))
    with pytest.raises(PhalanxError, match="is not NAME=VALUE"):
        environment(["A"])


def test_a_namespace_that_is_not_there_is_told_with_what_to_do_about_it(tmp_path: Path) -> None:
    error = ApiRefusal(404, "NotFound", 'namespaces "lab" not found', {"kind": "namespaces", "name": "lab"})
    command = Document(file="the command", obj=job(ManifestRequest(name="x", command=("true",), namespace="lab")))
    assert str(refusal(command, error)).startswith("the command: there is no namespace lab. This object and")
    [document] = read_files([written(tmp_path, JOB.replace("  name: train\n", "  name: train\n  namespace: lab\n"))])
    assert str(refusal(document, error)).startswith(f"{tmp_path}/job.yaml:5: there is no namespace lab")


def test_a_name_that_is_taken_is_refused_with_what_to_do_about_it(tmp_path: Path) -> None:
    [document] = read_files([written(tmp_path, JOB)])
    error = ApiRefusal(409, "AlreadyExists", 'jobs.batch "train" already exists')
    said = str(refusal(document, error))
    assert 'job.yaml:4: jobs.batch "train" already exists. The existing object was not changed' in said
    assert "kubectl delete job train" in said


def test_output_goes_into_a_file_whose_name_no_shell_reads() -> None:
    found = job(ManifestRequest(name="train", command=("echo", "a b"), pods=2, output="out-%r-$(x).txt"))
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {"name": "PHALANX_OUTPUT", "value": "out-$(RANK)-$$(x).txt"}
    assert container["command"][3:] == ["phalanx", "echo", "a b"]
    assert "out" not in container["command"][2]


@pytest.mark.parametrize(
    ("line", "stem"),
    [
        ("python3.11 -u /home/ada/Train_it.py --epochs 3", "train-it"),
        ("torchrun --nproc-per-node 2 train.py", "train"),
        ("sh -c true", "sh"),
        ("./fit data.py", "fit"),
    ],
)
def test_a_job_is_named_after_the_script_that_an_interpreter_runs(line: str, stem: str) -> None:
    assert name_of(line.split(), "x7k2p") == f"{stem}-x7k2p"


def test_an_interactive_command_begins_with_the_first_session() -> None:
    [container] = job(ManifestRequest(name="desk", command=("bash",), stdin=True, tty=True))["spec"]["template"][
        "spec"
    ]["containers"]
    assert (container["stdin"], container["stdinOnce"], container["tty"]) == (True, False, True)
    assert waits_for_session(container)
    done = subprocess.run(
        [*container["command"][:-1], "cat"], input="\nkept\n", capture_output=True, text=True, check=True
    )
    assert done.stdout == "kept\n"  # the first line is the session's, and all that follows the command's
