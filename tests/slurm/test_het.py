"""Heterogeneous jobs: the requests of each component, its variables about the others, and the records afterwards."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.launch.sbatch import OPTIONS
from phalanx.slurm.jobs.ask import ASK, COMPONENT, NUMBER, Ask, read_ask
from phalanx.slurm.jobs.chosen import Chosen, read_ids
from phalanx.slurm.jobs.ended import _components
from phalanx.slurm.jobs.pages import job as page
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import OptionReader, Usage
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.asked.request import SubmissionRequest
from phalanx.slurm.submission.asked.script import lines
from phalanx.slurm.submission.het import by_colons, images_of, in_lines, of_groups, submit_het, together

READER = OptionReader("sbatch", OPTIONS, mixed=False)
FIRST = Ask(
    name="het", user="u1", uid=1, gid=1, group="g", account="physics", partition="batch", tasks=2, memory_mib=100,
    per_cpu=True, het=12, het_size=2, node_cpus=16,
)  # fmt: skip
SECOND = msgspec.structs.replace(
    FIRST, partition="wide", tasks=4, nodes=2, said_nodes=True, memory_mib=1000, het_offset=1
)


def test_components_are_separated_by_hetjob_and_by_colons() -> None:
    script = "#!/bin/sh\n#SBATCH -J het -n2 -t5\n#SBATCH --mem-per-cpu=100\n#SBATCH hetjob\n#SBATCH -n4 -p wide\ntrue\n"
    of_script = in_lines(READER, list(lines(script)))
    typed, rest = by_colons(READER, ["-n1", ":", "-n8", "job.sh", "a", ":"])
    assert rest == ["job.sh", "a", ":"]
    first, second = together(of_script, typed, {"qos": "fast"})
    assert first == {"job-name": "het", "ntasks": "1", "time": "5", "mem-per-cpu": "100", "qos": "fast"}
    # of the first's it has the name and the time, and not the memory (measured, 22.05)
    assert second == {"job-name": "het", "time": "5", "qos": "fast", "ntasks": "8", "partition": "wide"}


def test_the_script_of_wrap_is_the_first_components() -> None:
    typed, _ = by_colons(READER, ["-n1", ":", "-n2", "--wrap", "true"])
    assert together([{}], typed, {}) == [{"ntasks": "1", "wrap": "true"}, {"ntasks": "2"}]


def test_variables_are_those_of_a_recording() -> None:
    said = of_groups(710013, [FIRST, SECOND])
    recorded = {
        "SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_1": "710014", "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "3,1",
        "SLURM_TASKS_PER_NODE_PACK_GROUP_1": "3,1", "SLURM_JOB_NUM_NODES_HET_GROUP_0": "1",
        "SLURM_MEM_PER_CPU_HET_GROUP_1": "1000", "SLURM_NTASKS_PACK_GROUP_0": "2", "SLURM_PACK_SIZE": "2",
        "SLURM_JOB_PARTITION_HET_GROUP_1": "wide", "SLURM_JOB_ACCOUNT_PACK_GROUP_1": "physics",
    }  # fmt: skip
    assert {name: said[name] for name in recorded} == recorded


def test_components_are_one_gang_whose_first_has_the_number() -> None:
    first, second = (manifest.job(12 + at, ask, Site(), {}, [])["metadata"] for at, ask in enumerate((FIRST, SECOND)))
    for meta in (first, second):
        labels = meta["labels"]
        assert (labels["phalanx.dev/job"], labels["phalanx.dev/job-roles"]) == ("slurm-12", "2")
        assert labels["slurm.phalanx.dev/array"] == "12"
    assert first["annotations"][NUMBER] == "12"
    assert NUMBER not in second["annotations"]
    assert ASK not in second["annotations"]
    assert read_ask(second["annotations"]) == SECOND
    assert second["labels"][NUMBER] == "13"


def test_ids_have_a_plus_and_choose_one_component_or_all() -> None:
    jobs = [JobInfo(number=12 + at, ask=ask, state="RUNNING") for at, ask in enumerate((FIRST, SECOND))]
    assert [job.id for job in jobs] == ["12+0", "12+1"]
    for text, chosen in (("12", [True, True]), ("12+1", [False, True]), ("13", [False, True]), ("14", [False, False])):
        assert [Chosen(ids=tuple(read_ids(text))).has(job) for job in jobs] == chosen
    assert [" ".join(words) for words in page(jobs[1])[:2]] == [
        "JobId=13 HetJobId=12 HetJobOffset=1 JobName=het", "HetJobIdSet=12-13",
    ]  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_the_ledger_has_one_entry_from_which_all_components_are_read(known: bool) -> None:
    words = {"job": msgspec.json.encode(FIRST).decode(), "step.0": '{"name":"a","components":[0,1]}',
             "step.1": '{"name":"b","components":[1]}', "step.2": '{"name":"c"}'}  # fmt: skip
    if known:
        words[COMPONENT.partition("/")[2] + "1"] = msgspec.json.encode(SECOND).decode()
    row = [1, 12, "COMPLETED", msgspec.json.encode(words).decode(), 1.0, 1.0, 9.0, 0, 0, "", "", "u1"]
    found = _components(row, [(2.0, 9.0, '["n1"]', "COMPLETED")])
    assert [(job.id, job.state, list(job.steps)) for job in found] == [
        ("12+0", "COMPLETED", [0, 2]), ("12+1", "COMPLETED", [0, 1]),
    ][: 1 + known]  # fmt: skip


# --- in images that get the tools -------------------------------------------------------------------------------------


class Made(ApiClient):
    """An API server that takes what is made; the next number is 12."""

    def __init__(self) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser(token="t"))
        self.made: list[dict[str, Any]] = []

    def another(self) -> Made:
        return self

    def call(self, method: str, path: str, body: Any = None, *_: Any, **query: str) -> bytes:
        if method == "GET":
            return json.dumps({"metadata": {"resourceVersion": "1"}, "data": {"next": "12"}}).encode()
        if path == "/slurm/v1/numbers":
            return b'{"first": 12}'
        if method == "POST":
            body["metadata"]["uid"] = f"uid-{len(self.made)}"
            self.made.append(body)
        return json.dumps(body).encode()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.made if one["kind"] == kind]


def components(*images: str) -> list[SubmissionRequest]:
    asks = (FIRST, SECOND)
    return [
        SubmissionRequest(ask=msgspec.structs.replace(ask, image=image), array=None, said={})
        for ask, image in zip(asks, images, strict=True)
    ]


def test_components_share_a_token_that_names_the_objects_of_all() -> None:
    api = Made()
    assert submit_het(api, Site(tools="phalanx:1"), components("one", "two"), "", []) == [12, 13]
    [account], [role] = api.of("ServiceAccount"), api.of("Role")
    assert account["metadata"]["name"] == "slurm-12.2"
    assert account["metadata"]["ownerReferences"][0]["name"] == "slurm-12"
    assert [rule.get("resourceNames") for rule in role["rules"]] == [["slurm-12", "slurm-13"]] * 2 + [None]
    pods = [job["spec"]["template"]["spec"] for job in api.of("Job")]
    assert [pod["serviceAccountName"] for pod in pods] == ["slurm-12.2"] * 2
    assert [pod["containers"][0]["image"] for pod in pods] == ["one", "two"]


def test_processes_of_their_user_need_no_token() -> None:
    api = Made()
    submit_het(api, Site(tools="phalanx:1"), components("", ""), "", [])
    assert api.of("ServiceAccount") == []
    assert len(api.of("Job")) == 2


def test_a_component_that_names_no_image_has_the_first_ones() -> None:
    assert images_of(components("one", "")) == ["one", "one"]


def test_processes_and_images_are_not_mixed() -> None:
    with pytest.raises(Usage, match="does not support components with the image host and others in one job"):
        images_of(components("", "two"))
