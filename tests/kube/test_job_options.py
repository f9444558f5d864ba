"""Scheduling options in labels and annotations, and the errors of invalid values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.kube.read import labels
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.model.job import Dependency, DependencyType, GangSize, Group, Job
from phalanx.model.node import SliceLayer, TopologyRequest
from phalanx.model.reason import ReasonCode
from tests.kube import double
from tests.kube.test_gang_spec import declared, why

EVERYTHING = {
    "phalanx.dev/user": "alice",
    "phalanx.dev/time-limit": "1h30m",
    "phalanx.dev/estimate": "45m",
    "phalanx.dev/checkpoint": "10m",
    "phalanx.dev/begin": "1970-01-01T00:02:00Z",
    "phalanx.dev/deadline": "1970-01-01T03:00:00+01:00",
    "phalanx.dev/after": "prepare, other/data:any",
    "phalanx.dev/after-any": "true",
    "phalanx.dev/singleton": "nightly",
    "phalanx.dev/array": "sweep",
    "phalanx.dev/array-cap": "3",
    "phalanx.dev/reservation": "week",
    "phalanx.dev/nice": "-5",
    "phalanx.dev/qos": "high",
    "phalanx.dev/preemptible": "false",
    "phalanx.dev/movable": "false",
    "phalanx.dev/nodes-after": "10m",
    "phalanx.dev/size": "fixed-at-start",
    "phalanx.dev/closeness": "rack",
    "phalanx.dev/balanced": "true",
    "phalanx.dev/slice": "2@host",
    "phalanx.dev/subgroups": '[{"name": "left", "minimum": 1, "preferredCloseness": "block"}]',
    "phalanx.dev/subgroup": "left",
    "phalanx.dev/role-preferred-closeness": "host",
    "phalanx.dev/role-slice": "4@rack, 2@host",
}


def annotated(words: dict[str, str], **more: Any) -> dict[str, Any]:
    manifest = double.job("j", 4)
    manifest["metadata"]["annotations"] = words
    manifest["metadata"]["labels"]["phalanx.dev/group"] = "lab"
    manifest["spec"] |= more
    return manifest


@pytest.mark.parametrize(
    ("annotation", "value", "movable"),
    [
        ("karpenter.sh/do-not-disrupt", "true", False),
        ("karpenter.sh/do-not-disrupt", "4h", False),
        ("karpenter.sh/do-not-disrupt", "false", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", False),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", True),
    ],
)
def test_pods_that_autoscalers_must_not_evict_are_not_moved(annotation: str, value: str, movable: bool) -> None:
    manifest = double.job("j", 4)
    manifest["spec"]["template"]["metadata"] = {"annotations": {annotation: value}}
    assert declared(manifest).movable is movable
    manifest["metadata"]["annotations"] = {"phalanx.dev/movable": "true"}
    assert declared(manifest).movable, "the job's own option counts"


@pytest.mark.parametrize(("value", "after_s"), [("1m30s", 90.0), ("500ms", 0.5), ("soon", 0.0)])
def test_the_delay_of_the_cluster_autoscaler_holds_here(value: str, after_s: float) -> None:
    manifest = double.job("j", 4)
    said = {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": value}
    manifest["spec"]["template"]["metadata"] = {"annotations": said}
    assert declared(manifest).nodes_after_s == after_s


def test_every_word_is_read() -> None:
    job = declared(annotated(EVERYTHING))
    assert why(job) == ""
    assert (job.user, job.group, job.singleton, job.array, job.array_cap) == ("alice", "lab", "nightly", "sweep", 3)
    assert (job.limit_s, job.estimate_s, job.begin_s, job.deadline_s) == (5400.0, 2700.0, 120.0, 7200.0)
    assert job.after == (Dependency(job="default/prepare"), Dependency(job="other/data", after=DependencyType.ANY))
    assert (job.checkpoint_s, job.movable, job.nodes_after_s) == (600.0, False, 600.0)
    assert (job.requires_any, job.reservation, job.nice, job.qos) == (True, "week", -5, "high")
    assert (job.preemptible, job.preempts, job.size) == (False, True, GangSize.FIXED_AT_START)
    assert job.closeness == TopologyRequest(level="rack", balanced=True, slices=(SliceLayer(2, "host"),))
    assert job.groups == (Group(name="left", minimum=1, closeness=TopologyRequest(level="block", required=False)),)
    layers = (SliceLayer(4, "rack"), SliceLayer(2, "host"))
    near = TopologyRequest(level="host", required=False, slices=layers)
    assert (job.roles[0].group, job.roles[0].closeness) == ("left", near)


def test_who_says_nothing_has_the_defaults() -> None:
    job = declared(double.job("j", 1))
    plain = Job(id=job.id, queue=job.queue, roles=job.roles, submitted_s=job.submitted_s)
    assert job == plain


def test_the_jobs_own_deadline_is_its_limit_and_the_shorter_of_both_counts() -> None:
    assert declared(annotated({}, activeDeadlineSeconds=60)).limit_s == 60.0
    assert declared(annotated({"phalanx.dev/time-limit": "30"}, activeDeadlineSeconds=60)).limit_s == 30.0
    assert declared(annotated({"phalanx.dev/time-limit": "2m"}, activeDeadlineSeconds=60)).limit_s == 60.0


def test_a_user_is_who_the_policy_says_and_no_label() -> None:
    manifest = double.job("j", 1)
    manifest["metadata"]["labels"]["phalanx.dev/user"] = "root"
    assert declared(manifest).user == ""
    assert declared(double.pod("p", user="root")).user == ""


def test_a_priority_class_that_preempts_nobody_is_heeded() -> None:
    classes = {"polite": {"value": 5, "preemptionPolicy": "Never"}, "base": {"globalDefault": True}}
    around = AdmissionDefaults(priority_classes=classes)
    assert not around.preempts({"priorityClassName": "polite"})
    assert around.preempts({"priorityClassName": "polite", "preemptionPolicy": "PreemptLowerPriority"})
    assert around.preempts({})


@pytest.mark.parametrize(
    ("word", "value", "complaint"),
    [
        (
            "time-limit",
            "soon",
            "j sets phalanx.dev/time-limit to 'soon': 'soon' is not a length of time; write seconds (90)",
        ),
        ("time-limit", "0", "j sets phalanx.dev/time-limit to '0': it must be longer than 0 seconds"),
        ("begin", "tomorrow", "j sets phalanx.dev/begin to 'tomorrow': tomorrow is not a time; write for instance 20"),
        ("begin", "2026-01-01T00:00:00", "j sets phalanx.dev/begin to '2026-01-01T00:00:00': 2026-01-01T00:00:00 has"),
        ("after", "a:later", "j sets phalanx.dev/after to 'a:later': it must be one of start, ok, not-ok, any"),
        ("after", ":ok", "j sets phalanx.dev/after to ':ok': a dependency must name a job"),
        ("after-any", "maybe", "j sets phalanx.dev/after-any to 'maybe': it must be true or false"),
        ("array-cap", "0", "j sets phalanx.dev/array-cap to '0': it is not a whole number from 1 to 2147483647"),
        ("nice", "much", "j sets phalanx.dev/nice to 'much': it is not a whole number from -2147483648"),
        ("preemptible", "never", "j sets phalanx.dev/preemptible to 'never': it must be true or false"),
        ("size", "large", "j sets phalanx.dev/size to 'large': it must be one of elastic, in-turn, fixed-at-start"),
        ("slice", "4", "j sets phalanx.dev/slice to '4': write PODS@LEVEL, for instance 4@kubernetes.io/hostname"),
        ("slice", "0@host", "j sets phalanx.dev/slice to '0@host': it is not a whole number from 1"),
        (
            "role-slice",
            "4@rack,",
            "j sets phalanx.dev/role-slice to '4@rack,': write PODS@LEVEL, for instance 4@kubernete",
        ),
        ("subgroups", "left", "j sets phalanx.dev/subgroups to 'left': it is not a JSON list"),
        ("subgroups", "[{}]", "j sets phalanx.dev/subgroups to '[{}]': a group must have a name"),
        ("subgroups", '[{"nam": "x"}]', 'j sets phalanx.dev/subgroups to \'[{"nam": "x"}]\': there is no such field'),
    ],
)
def test_a_value_that_cannot_be_names_object_word_and_what_is_allowed(word: str, value: str, complaint: str) -> None:
    job = declared(annotated({f"phalanx.dev/{word}": value}))
    assert job.blocked is not None
    assert job.blocked.code is ReasonCode.INVALID
    assert job.blocked.text.startswith(complaint)


def test_a_level_is_required_or_preferred_and_not_both() -> None:
    both = {"phalanx.dev/closeness": "rack", "phalanx.dev/preferred-closeness": "zone"}
    assert why(declared(annotated(both))).endswith("set only one of them")


def test_members_that_contradict_each_other_wait() -> None:
    said = {"job": "t", "job_roles": "2"}
    contrary = declared(double.job("a", 1, **said, qos="high"), double.job("b", 1, **said, qos="low"))
    assert "contradict each other: a sets phalanx.dev/qos to high, b to low" in why(contrary)


def test_bare_pods_say_their_limit_themselves() -> None:
    assert declared(double.pod("p", time_limit="60")).limit_s == 60.0
    own = double.pod("p")
    own["spec"]["activeDeadlineSeconds"] = 60
    assert declared(own).limit_s == 60.0


def test_every_word_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "kubernetes.md").read_text()
    words = [value for name, value in vars(labels).items() if name.isupper() and str(value).startswith("phalanx.dev/")]
    assert len(words) > 30
    assert [word for word in words if word not in guide] == []
