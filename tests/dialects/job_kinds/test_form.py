"""`dialects/job_kinds/form.py`: the protocol of a framework's job kind."""

from __future__ import annotations

from phalanx.dialects.job_kinds.form import Framework, difference, nested, patched
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.kube.read.workload.adapter import JobAdapter, WorkloadChange, merge_changes
from tests.dialects.job_kinds.test_forms import PARTS, Object

GATES = [{"name": "g"}]


WORDS = {"labels": {"team": "a"}, "annotations": {"note": "b"}}


@PARTS
def test_what_is_written_to_all_roles_at_once_is_read_back(form: Framework, job: Object, made: Object | None) -> None:
    roles = [role for role in form.roles(job, made) if role != "submitter"]  # without a template it is its operator's
    changes = [
        WorkloadChange(
            JobAdapter(form.kind, role, made),
            {
                "suspend": False,
                "template": {"metadata": WORDS, "spec": {"nodeSelector": {"of": role}, "schedulingGates": GATES}},
            },
            {"phalanx.dev/template": role, "phalanx.dev/admitted": "{}"},
        )
        for role in roles
    ]
    spec, words = merge_changes(job, changes)
    now = patched(job, {"spec": spec, "metadata": {"annotations": words}})
    made = carried(now, made)
    for role in roles:
        after = form.view(now, role, made)
        assert not after["spec"]["suspend"]
        assert after["spec"]["template"]["spec"]["nodeSelector"]["of"] == role
        assert after["spec"]["template"]["spec"]["schedulingGates"] == GATES
        meta = after["spec"]["template"]["metadata"]
        assert (meta["labels"]["team"], meta["annotations"]["note"]) == ("a", "b")
        assert after["metadata"]["annotations"]["phalanx.dev/template"] == role
        before = form.view(job, role, made)
        assert after["spec"]["parallelism"] == before["spec"]["parallelism"]
    assert patched(now, {"spec": nested(form.suspend, True)})["spec"] != now["spec"]


def carried(job: Object, made: Object | None) -> Object | None:
    """The JobSet with what runtimePatches say, as the operator of TrainJobs carries it over."""
    spec = (made or {}).get("spec") or {}
    for entry in job["spec"].get("runtimePatches") or ():
        for one in entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            spec = JOB_SET.edit(spec, one["name"], one["template"]["spec"])
    return made and {**made, "spec": spec}


def test_the_difference_of_two_specs_makes_the_one_of_the_other() -> None:
    old: Object = {"a": 1, "b": {"c": [1], "d": 2}, "e": {"f": 1}}
    new: Object = {"b": {"c": [1, 2], "g": {"h": 1}}, "e": {"f": 1}, "i": None}
    assert difference(old, new) == {"a": None, "b": {"c": [1, 2], "d": None, "g": {"h": 1}}, "i": None}
    assert difference(old, old) == {}
