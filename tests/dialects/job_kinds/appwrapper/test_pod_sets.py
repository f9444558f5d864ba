"""The sets of pods in what is wrapped, what each component is created as, and the AppWrapper as Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from phalanx.dialects.job_kinds.appwrapper.pod_sets import WrapError, component_object, pod_sets
from phalanx.dialects.job_kinds.form import difference, patched


def template(**spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def obj(kind: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def app_wrapper(*components: Object, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": "a", "namespace": "n", "uid": "u", "labels": labels or {}}
    return {"metadata": meta, "spec": {"suspend": True, "components": list(components), **spec}}


REPLICAS = {"Worker": {"replicas": 3, "template": template()}, "Master": {"template": template()}}
GROUPS = [{"replicas": 2, "template": template()}]


@pytest.mark.parametrize(
    ("wrapped", "pods"),
    [
        (obj("Pod", containers=[]), [1]),
        (obj("Deployment", replicas=2, template=template()), [2]),
        (obj("Job", parallelism=4, completions=3, template=template()), [3]),
        (obj("Job", template=template()), [1]),
        (obj("PyTorchJob", pytorchReplicaSpecs=REPLICAS), [1, 3]),
        (obj("RayCluster", headGroupSpec={"template": template()}, workerGroupSpecs=GROUPS), [1, 2]),
    ],
)
def test_the_sets_of_known_kinds_are_inferred(wrapped: Object, pods: list[int]) -> None:
    assert [one.replicas for one in pod_sets({"components": [{"template": wrapped}]})] == pods


def test_other_kinds_declare_theirs_and_known_ones_declare_the_same() -> None:
    other = obj("LeaderWorkerSet", leaderWorkerTemplate={"workerTemplate": template()})
    path = "template.spec.leaderWorkerTemplate.workerTemplate"
    (one,) = pod_sets({"components": [{"template": other, "podSets": [{"path": path, "replicas": 4}]}]})
    assert (one.replicas, one.role) == (4, "0-0")
    for component in (
        {"template": other},
        {"template": other, "podSets": [{"path": "template.spec.nothing"}]},
        {"template": obj("Pod"), "podSets": [{"path": "template", "replicas": 2}]},
    ):
        with pytest.raises(WrapError):
            pod_sets({"components": [component]})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"containers": 7}, "template.spec.containers is not a list"),
        ({"containers": [7]}, "template.spec.containers is not a list of mappings"),
        ({"containers": [{"resources": "x"}]}, "its resources are not mappings"),
        ({"containers": [{"resources": {"limits": [1]}}]}, "its resources are not mappings"),
        ({"affinity": {"nodeAffinity": "x"}}, "template.spec.affinity.nodeAffinity is not a mapping"),
        ("x", "template.spec is not a mapping"),
    ],
)
def test_a_template_of_another_form_is_said_to_be(wrong: Any, said: str) -> None:
    wrapped = {**obj("Pod"), "spec": wrong}
    with pytest.raises(WrapError, match=said):
        pod_sets({"components": [{"template": wrapped}]})
    assert APP_WRAPPER.roles(app_wrapper({"template": wrapped})) == []


@pytest.mark.parametrize("replicas", ["1e400", {}, [1]])
def test_a_number_of_pods_that_cannot_be_read_is_said(replicas: Any) -> None:
    head = {"template": template()}
    groups = [{"groupName": "w", "replicas": replicas, "template": template()}]
    wrapped = obj("RayCluster", headGroupSpec=head, workerGroupSpecs=groups)
    with pytest.raises(WrapError, match="component 0: its numbers of pods cannot be read"):
        pod_sets({"components": [{"template": wrapped}]})


def test_what_is_created_says_whose_it_is_and_has_what_its_queue_said() -> None:
    info = {"nodeSelector": {"zone": "a"}, "labels": {"l": "1"}, "tolerations": [{"operator": "Exists"}]}
    job = obj("Job", template=template(nodeSelector={"own": "b"}))
    found = component_object(app_wrapper({"template": job, "podSetInfos": [info]}), 0)
    assert found["metadata"]["labels"] == {"workload.codeflare.dev/appwrapper": "a"}
    pods = found["spec"]["template"]
    assert pods["spec"]["nodeSelector"] == {"own": "b", "zone": "a"}
    assert pods["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pods["metadata"]["labels"] == {
        "l": "1",
        "workload.codeflare.dev/appwrapper": "a",
        "workload.codeflare.dev.appwrapper/pod-set": "0-0",
    }
    assert "metadata" not in job["spec"]["template"]  # it is the AppWrapper's, and stays as it is
    with pytest.raises(WrapError, match="its queue sets"):
        component_object(app_wrapper({"template": job, "podSetInfos": [{"nodeSelector": {"own": "c"}}]}), 0)


def test_a_name_that_is_to_be_generated_is_the_same_each_time_and_none_is_an_error() -> None:
    made = {**obj("Job", template=template()), "metadata": {"generateName": "j-"}}
    names = {component_object(app_wrapper({"template": made}), 0)["metadata"]["name"] for _ in range(2)}
    assert len(names) == 1
    assert next(iter(names)).startswith("j-")
    with pytest.raises(WrapError, match="has no name"):
        component_object(app_wrapper({"template": {**made, "metadata": {}}}), 0)


def test_pods_that_ask_for_devices_keep_away_from_nodes_whose_devices_are_unhealthy() -> None:
    gpu = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    pod = component_object(app_wrapper({"template": obj("Pod", **gpu)}), 0)
    node = pod["spec"]["affinity"]["nodeAffinity"]
    (term,) = node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "autopilot.ibm.com/gpuhealth", "operator": "NotIn", "values": ["TESTING", "EVICT"]}
    ]
    assert "affinity" not in component_object(app_wrapper({"template": obj("Pod", containers=[])}), 0)["spec"]


def test_each_set_is_a_job_of_one_gang_in_the_queue_that_the_labels_name() -> None:
    two = app_wrapper({"template": obj("PyTorchJob", pytorchReplicaSpecs=REPLICAS)})
    assert APP_WRAPPER.roles(two) == ["0-0", "0-1"]
    job = APP_WRAPPER.view(two, "0-1")
    assert (job["metadata"]["uid"], job["spec"]["parallelism"], job["spec"]["suspend"]) == ("u/0-1", 3, True)
    assert job["metadata"]["labels"]["phalanx.dev/queue"] == "default"
    assert job["metadata"]["annotations"]["phalanx.dev/job-roles"] == "2"
    theirs = app_wrapper(two["spec"]["components"][0], labels={"kueue.x-k8s.io/queue-name": "q"})
    assert "phalanx.dev/queue" not in APP_WRAPPER.view(theirs, "0-0")["metadata"]["labels"]
    assert APP_WRAPPER.roles(app_wrapper({"template": obj("Service")})) == []


def test_what_is_written_of_a_job_is_read_back() -> None:
    spec = app_wrapper({"template": obj("Job", template=template(nodeSelector={"own": "b"}))})["spec"]
    given = {"spec": {"nodeSelector": {"own": "b", "zone": "a"}, "tolerations": [{"key": "t"}]}}
    after = APP_WRAPPER.edit(spec, "0-0", {"suspend": False, "template": given})
    assert after["components"][0]["podSetInfos"] == [{"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "t"}]}]
    assert after["components"][0]["template"] == spec["components"][0]["template"]
    job = APP_WRAPPER.view({**app_wrapper(), "spec": after}, "0-0")
    assert job["spec"]["suspend"] is False
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"own": "b", "zone": "a"}
    taken = {"spec": {"nodeSelector": {"own": "b", "zone": None}, "tolerations": None}}
    back = APP_WRAPPER.edit(after, "0-0", {"suspend": True, "template": taken})
    assert back == spec
    assert patched(after, difference(after, back)) == spec
