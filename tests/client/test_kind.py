"""The paths of kinds in the API."""

from __future__ import annotations

from phalanx.client.kind import JOBS, NODES, PODS


def test_a_path_names_the_group_the_namespace_the_object_and_its_part() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("team") == "/api/v1/namespaces/team/pods"
    assert JOBS.path("team", "train", "status") == "/apis/batch/v1/namespaces/team/jobs/train/status"


def test_what_is_of_no_namespace_has_none_in_its_path() -> None:
    assert NODES.path("team", "n1") == "/api/v1/nodes/n1"


def test_the_core_group_has_no_name_in_an_api_version() -> None:
    assert (PODS.api_version, JOBS.api_version) == ("v1", "batch/v1")
