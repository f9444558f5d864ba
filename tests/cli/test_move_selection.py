"""Which jobs move, what their copies depend on, and what another cluster has already."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.submission.moving.images import Replacement, claims, host_paths, runs_on_host
from phalanx.cli.submission.moving.portable import contains, portable
from phalanx.cli.submission.moving.selection import RUNS, choose, parted
from phalanx.cli.submission.moving.tally import Tally
from phalanx.client.kind import CONFIG_MAPS, JOBS, PODS
from phalanx.kube.read.records import RecordKey, Submission, submitted_s
from phalanx.slurm.cluster.site import Site

Object = dict[str, Any]
OVER = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}
RUNNING = {"active": 1}


def job(name: str, after: str = "", status: Object | None = None, **notes: str) -> FoundJob:
    words = {f"phalanx.dev/{key.replace('_', '-')}": text for key, text in notes.items()}
    words |= {"phalanx.dev/after": after} if after else {}
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "annotations": words}
    obj = {"metadata": meta, "spec": {"suspend": status is None}, "status": status or {}}
    return FoundJob(kind="job", namespace="n", name=name, members=(Member(kind=JOBS, obj=obj),))


def pod(name: str, node: str = "") -> FoundJob:
    obj = {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"nodeName": node}, "status": {}}
    return FoundJob(kind="pod", namespace="n", name=name, members=(Member(kind=PODS, obj=obj),))


def chosen(*jobs: FoundJob, stays: str = "", copied: frozenset[str] = frozenset()) -> tuple[Any, Any]:
    found = choose(jobs, lambda one: "may not" if one.name in stays.split() else "", copied)
    return {move.job.name: move.after for move in found.moves}, {one.name: why for one, why in found.stays}


def test_a_dependency_that_is_met_is_left_out_of_the_copy() -> None:
    prepared, broke, runs = job("prepared", status=OVER), job("broke", status=FAILED), job("runs", status=RUNNING)
    moves, _ = chosen(prepared, broke, runs, job("a", "prepared:ok"), job("b", "prepared:ok,c:ok"), job("c"))
    assert moves == {"a": "", "b": "n/c:ok", "c": None}
    moves, _ = chosen(broke, job("a", "broke:not-ok"), job("b", "runs:start"), runs, job("c", "elsewhere:ok"))
    assert moves == {"a": "", "b": "", "c": None}
    gone = job("a", "gone:ok", after_outcomes='{"n/gone": "succeeded"}')
    assert chosen(gone)[0] == {"a": ""}
    one_of_two = job("a", "broke:ok,prepared:ok", after_any="true")
    assert chosen(prepared, broke, one_of_two)[0] == {"a": ""}


def test_no_dependency_is_between_two_clusters() -> None:
    runs, chain = job("runs", status=RUNNING), [job("a", "runs:ok"), job("b", "a:ok"), job("c", "b:any"), job("d")]
    moves, stays = chosen(runs, *chain)
    assert set(moves) == {"d"}
    assert stays["runs"] == RUNS
    assert "it waits for n/runs, which runs here" in stays["a"]
    assert stays["c"] == "it waits for n/b, which stays here"
    moves, stays = chosen(job("a"), job("b", "a:ok"), stays="b")
    assert (moves, stays["a"]) == ({}, "n/b waits for it, and stays here")
    broke = job("broke", status=FAILED)
    assert "it never starts: n/broke ended otherwise" in chosen(broke, job("a", "broke:ok"))[1]["a"]
    assert "cannot be read" in chosen(job("a", "b:sometimes"))[1]["a"]


def test_a_job_that_was_copied_goes_on_moving_though_what_it_waits_for_has_moved() -> None:
    lost = job("b", "a:ok", after_outcomes='{"n/a": "deleted"}')
    assert chosen(lost)[0] == {}
    assert chosen(lost, copied=frozenset({"uid-b"}))[0] == {"b": None}


def test_jobs_that_depend_on_one_that_was_refused_stay_with_it() -> None:
    moves = choose([job("a"), job("b", "a:ok"), job("c")], lambda one: "").moves
    kept = [move for move in moves if move.job.name != "a"]
    assert [(one.name, why) for one, why in parted(moves, kept)] == [("b", "it waits for n/a, which stays here")]
    assert parted(moves, moves) == []


@pytest.mark.parametrize(
    "one",
    [
        pod("p", node="n1"),
        job("a", admitted="{}"),
        job("a", sent_to="other"),
        job("a", status={"active": 1, "conditions": [{"type": "Suspended", "status": "True"}]}),
        FoundJob(kind="gang", namespace="n", name="g", members=(*job("a").members, *pod("p", "n1").members)),
    ],
)
def test_a_job_that_has_started_in_part_stays(one: FoundJob) -> None:
    assert not choose([one], lambda _: "").moves


def test_an_object_is_there_if_the_target_has_all_of_it() -> None:
    mine = {"spec": {"a": 1, "list": [{"x": 1}], "empty": {}}}
    assert contains({"spec": {"a": 1, "list": [{"x": 1, "default": 2}], "more": 3}}, mine)
    assert not contains({"spec": {"a": 2, "list": [{"x": 1}]}}, mine)
    assert not contains({"spec": {"a": 1, "list": []}}, mine)
    assert not contains({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}}), "a ConfigMap may not have more"
    assert not contains({}, {"gang": False})
    body = portable(
        CONFIG_MAPS,
        {
            "metadata": {
                "name": "c",
                "uid": "u",
                "ownerReferences": [{}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "mine": "y"},
            },
            "data": {},
            "status": {},
        },
    )
    meta = {"name": "c", "annotations": {"mine": "y"}}
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}


def test_jobs_of_the_image_host_get_the_image_and_the_shared_directories() -> None:
    container = {"name": "main", "image": "host:latest", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    volumes = [
        {"name": "own", "hostPath": {"path": "/data"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "d"}},
    ]
    other = {"name": "side", "image": "busybox"}
    spec = {"replicas": {"Worker": {"template": {"spec": {"containers": [container, other], "volumes": volumes}}}}}
    obj: Object = {
        "metadata": {"name": "j", "namespace": "n", "annotations": {"slurm.phalanx.dev/job": "{}"}},
        "spec": spec,
    }
    assert runs_on_host(obj)
    assert (host_paths(obj), claims(obj)) == ({"/data"}, {"d"})
    owners = {"n": (1001, 1002)}
    Replacement(image="lab:1", mounts=("/home",), owners=owners, site=Site(tools="phalanx:1")).apply(obj)
    assert not runs_on_host(obj)
    assert [one["image"] for one in (container, other)] == ["lab:1", "busybox"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/own", "/home", "/opt/phalanx-tools"]
    assert "volumeMounts" not in other
    assert host_paths(obj) == {"/data", "/home"}
    pod = spec["replicas"]["Worker"]["template"]["spec"]
    assert pod["initContainers"][0]["image"] == "phalanx:1"
    assert pod["securityContext"] == {"runAsUser": 1001, "runAsGroup": 1002}, "root of the image could read all homes"


def test_the_secret_of_a_slurm_job_names_the_daemon_of_its_image() -> None:
    data = {"PHALANX_STEP_KEY": "a2V5", "PHALANX_PYTHON": "L3Vzci9iaW4vcHl0aG9u", "A": "Yg=="}
    assert Replacement(site=Site()).environment(data) == data
    assert Replacement(image="lab:1", site=Site()).environment(data) == {"PHALANX_STEP_KEY": "a2V5", "A": "Yg=="}
    found = Replacement(image="lab:1", site=Site(tools="phalanx:1")).environment(data)
    assert found.keys() == {*data, "PHALANX_PATH"}
    assert found["PHALANX_PYTHON"] != data["PHALANX_PYTHON"]


def test_a_submission_counts_only_as_it_was_signed() -> None:
    key = RecordKey(secret=b"k" * 32, since_s=0.0)
    said = key.submission(50.0, "uid").text()
    assert submitted_s(said, "uid", 100.0, key) == 50.0
    assert submitted_s(said, "other", 100.0, key) == 100.0
    assert submitted_s(said.replace("50.0", "10.0"), "uid", 100.0, key) == 100.0
    assert submitted_s(Submission(at_s=10.0).text(), "uid", 100.0, key) == 100.0, "nobody signed it"
    assert submitted_s(Submission(at_s=10.0).text(), "uid", 100.0, None) == 10.0, "there is no key"
    assert submitted_s(key.submission(500.0, "uid").text(), "uid", 100.0, key) == 100.0
    assert submitted_s("[", "uid", 100.0, key) == submitted_s(None, "uid", 100.0, key) == 100.0


def test_what_stays_for_the_same_reason_shares_a_line() -> None:
    tally = Tally()
    for name in "abcde":
        tally.leave("job", name, "it runs here")
    tally.leave("job", "f", "another")
    tally.row("job").found = 6
    assert list(tally.reasons()) == [("job", "a, b, c and 2 more", "it runs here"), ("job", "f", "another")]
    assert tally.table() == [("job", "6", "0", "0", "6")]
