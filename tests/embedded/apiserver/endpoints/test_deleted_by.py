"""The user who deletes a pod or a job is recorded where later readers find it."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.process import ServerProcess

BY = "phalanx.dev/deleted-by"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "host"}]}


def test_a_pod_that_ends_says_who_deleted_it_and_the_answer_is_the_real_one(api_server: ServerProcess) -> None:
    lie = {BY: "somebody else"}  # what its owner says of it before does not count
    body = {"metadata": {"name": "whose", "annotations": lie}, "spec": {**POD, "nodeName": "nowhere"}}
    assert api_server.ask("POST", PODS, body).code == 201
    answer = api_server.ask("DELETE", f"{PODS}/whose")
    assert (answer.code, answer.body["metadata"].get("annotations")) == (200, None)
    headers = (("Impersonate-User", "ada"), ("Impersonate-Group", "system:masters"))
    api_server.ask("DELETE", f"{PODS}/whose", {"gracePeriodSeconds": 5}, headers=headers)
    assert api_server.ask("GET", f"{PODS}/whose").body["metadata"]["annotations"] == {BY: "admin"}  # the first one
    assert api_server.ask("DELETE", f"{PODS}/whose", {"gracePeriodSeconds": 0}).code == 200


def test_the_answer_to_a_deleted_collection_does_not_name_the_user(api_server: ServerProcess) -> None:
    body = {"metadata": {"name": "one-of-them", "labels": {"of": "them"}}, "spec": {**POD, "nodeName": "nowhere"}}
    assert api_server.ask("POST", PODS, body).code == 201
    for _ in range(2):  # the second deletes pods that are marked already
        answer = api_server.ask("DELETE", f"{PODS}?labelSelector=of%3Dthem")
        (pod,) = answer.body["items"]
        assert (answer.code, pod["metadata"].get("annotations")) == (200, None)
    assert api_server.ask("GET", f"{PODS}/one-of-them").body["metadata"]["annotations"] == {BY: "admin"}
    api_server.ask("DELETE", f"{PODS}/one-of-them", {"gracePeriodSeconds": 0})


def test_nobody_says_beforehand_who_deleted_it(api_server: ServerProcess) -> None:
    lie = {BY: "bob"}
    body = {"metadata": {"name": "forged", "annotations": {**lie, "a": "b"}}, "spec": {**POD, "nodeName": "nowhere"}}
    made = api_server.ask("POST", PODS, body)
    assert (made.code, made.body["metadata"]["annotations"]) == (201, {"a": "b"})
    media = "application/merge-patch+json"
    changed = api_server.ask("PATCH", f"{PODS}/forged", {"metadata": {"annotations": lie}}, media=media)
    assert (changed.code, changed.body["metadata"]["annotations"]) == (200, {"a": "b"})
    assert api_server.ask("DELETE", f"{PODS}/forged").code == 200
    for notes in (lie, {BY: None}):  # while it ends
        api_server.ask("PATCH", f"{PODS}/forged", {"metadata": {"annotations": notes}}, media=media)
        found = api_server.ask("GET", f"{PODS}/forged").body["metadata"]["annotations"]
        assert found == {"a": "b", BY: "admin"}
    api_server.ask("DELETE", f"{PODS}/forged", {"gracePeriodSeconds": 0})


@pytest.mark.slow
def test_watchers_see_who_deleted_a_job_unless_it_was_a_part_of_the_cluster(api_server: ServerProcess) -> None:
    for user, said in (("ada", {BY: "ada"}), ("system:phalanx", None)):
        job = {"metadata": {"name": "whose"}, "spec": {"suspend": True, "template": {"spec": POD}}}
        made = api_server.ask("POST", JOBS, job).body["metadata"]
        headers = (("Impersonate-User", user), ("Impersonate-Group", "system:masters"))
        assert api_server.ask("DELETE", f"{JOBS}/whose?propagationPolicy=Background", headers=headers).code == 200
        query = f"?watch=1&timeoutSeconds=1&resourceVersion={made['resourceVersion']}"
        last = api_server.ask("GET", JOBS + query).body  # the one event since then
        assert (last["type"], last["object"]["metadata"].get("annotations")) == ("DELETED", said)


def test_an_evicted_pod_says_that_it_was_evicted(api_server: ServerProcess) -> None:
    body = {"metadata": {"name": "drained"}, "spec": {**POD, "nodeName": "nowhere"}}
    meta = api_server.ask("POST", PODS, body).body["metadata"]

    def evict(**preconditions: str) -> int:
        eviction = {"metadata": {"name": "drained"}, "deleteOptions": {"preconditions": preconditions}}
        return api_server.ask("POST", f"{PODS}/drained/eviction", eviction).code

    assert evict(uid="another's") == 409
    assert evict(resourceVersion="1") == 409
    assert "deletionTimestamp" not in api_server.ask("GET", f"{PODS}/drained").body["metadata"]
    assert evict(uid=meta["uid"], resourceVersion=meta["resourceVersion"]) == 201
    pod = api_server.ask("GET", f"{PODS}/drained").body
    (said,) = (one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (said["status"], said["reason"], said["message"]) == (
        "True", "EvictionByEvictionAPI", "Eviction API: evicting",
    )  # fmt: skip
    assert pod["metadata"]["deletionTimestamp"]
    assert api_server.ask("DELETE", f"{PODS}/drained", {"gracePeriodSeconds": 0}).code == 200
