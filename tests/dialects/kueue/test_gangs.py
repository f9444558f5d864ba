"""Kueue's labels and annotations as Phalanx's options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.dialects.kueue.gangs import UNQUEUED, Layer, layers, options_of, slices

K = "kueue.x-k8s.io/"
TWO_LAYERS = '[{"topology": "block", "size": 8}, {"topology": "r", "size": 4}]'


def options(kind: str = "Job", *, labels: Any = None, notes: Any = None, **meta: Any) -> dict[str, str]:
    queue = {f"{K}queue-name": "l"}
    found = options_of(kind, {"labels": {**queue, **(labels or {})}, "annotations": notes, "namespace": "ns", **meta})
    return {key.removeprefix("phalanx.dev/"): text for key, text in found.items()}


def test_a_job_of_a_local_queue_waits_again_when_it_is_resized() -> None:
    assert options() == {"queue": "localqueue/ns/l", "resizing": "requeue"}
    assert options(notes={f"{K}elastic-job": "true"})["size"] == "in-steps"


@pytest.mark.parametrize("meta", [{}, {"labels": {"phalanx.dev/queue": "q", f"{K}queue-name": "l"}}])
def test_jobs_without_the_label_or_with_our_own_do_not_belong_to_kueue(meta: dict[str, Any]) -> None:
    assert options_of("Job", meta) == {}


def test_jobs_without_a_queue_may_be_managed_as_well() -> None:
    assert options_of("Job", {"annotations": {UNQUEUED: "true"}})["phalanx.dev/queue"] == "localqueue/default/"
    assert options_of("Job", {"annotations": {UNQUEUED: "false"}}) == {}


def test_partial_admission_is_of_jobs_alone() -> None:
    notes = {f"{K}job-min-parallelism": "2", f"{K}job-completions-equal-parallelism": "true"}
    found = options(notes=notes)
    assert (found["min-available"], found["size"], found["completions"]) == ("2", "fixed-at-start", "equal-parallelism")
    assert "min-available" not in options("PyTorchJob", notes=notes)


def test_a_pod_group_is_a_gang_whose_failed_pods_are_replaced() -> None:
    group = {f"{K}pod-group-name": "g"}
    found = options("Pod", labels=group, notes={f"{K}pod-group-total-count": "3"})
    assert (found["job"], found["min-available"], found["replaces-failed"]) == ("g", "3", "true")
    assert "replaces-failed" not in options("Pod", labels=group, notes={f"{K}retriable-in-group": "False"})
    assert "job" not in options("Pod")


def test_the_pods_of_sets_are_groups_that_name_their_set() -> None:
    lws = {f"leaderworkerset.sigs.k8s.io/{key}": text for key, text in (("name", "s"), ("group-index", "1"))}
    found = options("Pod", labels=lws)
    assert (found["job"], found[f"{K}job-owner-name"], found[f"{K}component-workload-index"]) == ("s-1", "s", "1")
    owner = {"kind": "StatefulSet", "name": "g", "uid": "u", "controller": True}
    of_set = options("Pod", labels={f"{K}pod-group-name": "g"}, ownerReferences=[owner])
    assert of_set[f"{K}job-uid"] == "u"
    other = options("Pod", labels={f"{K}pod-group-name": "other"}, ownerReferences=[owner])
    assert f"{K}job-uid" not in other


def test_topologies_of_the_template_count_and_groups_share_one() -> None:
    template = {"annotations": {f"{K}podset-required-topology": "rack"}}
    assert options(template=template)["role-closeness"] == "rack"
    assert options("Pod", notes={f"{K}podset-preferred-topology": "rack"})["role-preferred-closeness"] == "rack"
    together = {"annotations": {f"{K}podset-required-topology": "rack", f"{K}podset-group-name": "g"}}
    found = options(template=together)
    assert found["subgroup"] == "g"
    assert json.loads(found["subgroups"]) == [{"name": "g", "closeness": "rack"}]


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        ({}, ""),
        ({"podset-slice-size": "4", "podset-slice-required-topology": "rack"}, "4@rack"),
        ({"podset-slice-size": "4"}, "4@"),  # the user gets a message about the missing annotation
        (
            {"podset-slice-required-topology-constraints": TWO_LAYERS},
            "8@block,4@r",
        ),
        ({"podset-slice-required-topology-constraints": "nonsense"}, "nonsense"),
    ],
)
def test_slices(notes: dict[str, str], text: str) -> None:
    assert slices({f"{K}{key}": said for key, said in notes.items()}) == text


def test_layers_that_cannot_be_read_are_none() -> None:
    key = f"{K}podset-slice-required-topology-constraints"
    assert layers({key: '[{"topology": "block", "size": 8}]'}) == [Layer("block", 8)]
    assert [layers({key: text}) for text in ("{", "{}", '[{"size": "x"}]', None)] == [[]] * 4
