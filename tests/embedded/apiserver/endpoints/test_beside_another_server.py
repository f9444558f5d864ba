"""Answers that a kube-apiserver 1.36.2 gave in conversations of `tests/embedded/beside`, by kind of difference."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import Answer, InProcess

pytestmark = pytest.mark.slow  # each test starts an API server; `test_answers_protobuf` and its neighbours are fast

JSON, MERGE, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
SERVICES, MAPS, PODS = f"{CORE}/services", f"{CORE}/configmaps", f"{CORE}/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
REVIEWS = "/apis/authorization.k8s.io/v1"
CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
PORTS = [{"port": 80}]


def answered(folder: Path, *requests: tuple[Any, ...]) -> Answer:
    """Return the answer to the last request."""

    async def run() -> Answer:
        async with InProcess.started(folder) as api:
            for one in requests:
                answer = await api.ask(*one)
            return answer

    return asyncio.run(run())


def named(**rest: Any) -> Any:
    return {"metadata": {"name": "x"}, **rest}


def service(**spec: Any) -> Any:
    return named(spec={"ports": PORTS, **spec})


def workload(template: Any = TEMPLATE, **spec: Any) -> Any:
    return named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec})


def with_spec(**spec: Any) -> Any:
    return {**TEMPLATE, "spec": {**TEMPLATE["spec"], **spec}}


LOOPBACK = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
DEADLINE = "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {} is not Supported"
TOO_SMALL = 'spec.resources.requests[cpu]: Invalid value: "500m": must be greater than or equal to aggregate container'
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
POLICIES = '"PreferDualStack", "RequireDualStack", "SingleStack"'
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (SERVICES, service(externalIPs=["127.0.0.1"]), f'spec.externalIPs[0]: Invalid value: "127.0.0.1": {LOOPBACK}'),
        (SERVICES, service(clusterIP="odd"), f'"x" is invalid: spec.clusterIPs[0]: Invalid value: "odd": {NO_ADDRESS}'),
        (
            SERVICES,
            service(ipFamilies=["IPv4", "IPv4"], ipFamilyPolicy="Odd"),
            '"x" is invalid: [spec.ipFamilies[1]: Duplicate value: "IPv4", spec.ipFamilyPolicy: Unsupported value: '
            f'"Odd": supported values: {POLICIES}]',
        ),
        (
            f"{CORE}/endpoints",
            named(subsets=[{"addresses": [{"ip": "Odd"}], "ports": PORTS}]),
            f'[subsets[0].addresses[0].ip: Invalid value: "Odd": {NO_ADDRESS}, subsets[0].addresses[0].ip: '
            'Invalid value: "Odd": must be a valid IP address]',
        ),
        (f"{APPS}/deployments", workload(with_spec(activeDeadlineSeconds=5)), DEADLINE.format("ReplicaSet")),
        (f"{APPS}/daemonsets", workload(with_spec(activeDeadlineSeconds=5)), DEADLINE.format("DaemonSet")),
        (PODS, named(spec={"containers": CONTAINERS, "resources": {"requests": {"cpu": "500m"}}}), TOO_SMALL),
        (PODS, named(spec={"containers": CONTAINERS, "os": {"name": "odd"}}), 'spec.os: Unsupported value: "odd"'),
        (
            PODS,
            {"metadata": {"name": "x", "annotations": {APP_ARMOR: "odd"}}, "spec": {"containers": CONTAINERS}},
            f'metadata.annotations[{APP_ARMOR}]: Invalid value: "odd": invalid AppArmor profile name: "odd"',
        ),
        (
            INGRESS_CLASSES,
            named(spec={"controller": "a.example/b", "parameters": {"kind": "K", "name": "n", "namespace": "d"}}),
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        ),
        (
            f"{CORE}/resourcequotas",
            named(
                spec={
                    "hard": {"pods": "1"},
                    "scopeSelector": {
                        "matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["x"]}]
                    },
                }
            ),
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating",
        ),
    ],
)
def test_wrong_objects_are_refused_in_kubernetes_words(tmp_path: Path, path: str, body: Any, said: str) -> None:
    answer = answered(tmp_path, ("POST", path, body))
    assert answer.code == 422, answer.body
    assert said in answer.body["message"]


TOKENS = "spec.serviceAccountTokenInSecrets is unset"
DRIVER = named(spec={"tokenRequests": [{"audience": "a"}]})
TWICE = [{"containerPort": 80}, {"containerPort": 80}]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/apis/storage.k8s.io/v1/csidrivers", DRIVER, TOKENS),
        (f"{APPS}/deployments", workload(with_spec(containers=[{**CONTAINERS[0], "ports": TWICE}])), "duplicate port"),
        (f"{APPS}/statefulsets", workload(revisionHistoryLimit=-1), "a negative value retains all historical"),
    ],
)
def test_writes_warn(tmp_path: Path, path: str, body: Any, said: str) -> None:
    answer = answered(tmp_path, ("POST", path, body))
    assert answer.code == 201
    assert any(said in one for one in answer.warnings)


def test_a_service_is_created_by_a_put(tmp_path: Path) -> None:
    assert answered(tmp_path, ("PUT", f"{SERVICES}/x", service())).code == 201


def test_a_load_balancer_may_have_no_node_ports(tmp_path: Path) -> None:
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
    answer = answered(tmp_path, ("POST", SERVICES, service(**spec)))
    assert "nodePort" not in answer.body["spec"]["ports"][0]


def test_nobody_owns_the_address_families_of_a_new_service(tmp_path: Path) -> None:
    [entry] = answered(tmp_path, ("POST", SERVICES, service())).body["metadata"]["managedFields"]
    assert not {"f:ipFamilies", "f:ipFamilyPolicy", "."} & entry["fieldsV1"]["f:spec"].keys()


@pytest.mark.parametrize("kind", ["replicasets", "deployments"])
def test_nobody_owns_a_template_itself(tmp_path: Path, kind: str) -> None:
    [entry] = answered(tmp_path, ("POST", f"{APPS}/{kind}", workload())).body["metadata"]["managedFields"]
    template = entry["fieldsV1"]["f:spec"]["f:template"]
    assert "." not in template
    assert "." not in template["f:spec"]


def test_an_apply_without_a_change_has_no_time(tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", **named(data={"a": "b"})}
    applied = ("PATCH", f"{MAPS}/x?fieldManager=m", config, APPLY)
    answer = answered(tmp_path, ("POST", MAPS, named(data={"a": "b"})), applied)
    times = {one["manager"]: "time" in one for one in answer.body["metadata"]["managedFields"]}
    assert times == {"m": False, "unknown": True}


@pytest.mark.parametrize("media", [MERGE, JSON_PATCH])
def test_an_empty_list_resets_managed_fields(tmp_path: Path, media: str) -> None:
    patch: Any = {"metadata": {"managedFields": []}}
    if media == JSON_PATCH:
        patch = [{"op": "replace", "path": "/metadata/managedFields", "value": []}]
    answer = answered(tmp_path, ("POST", MAPS, named()), ("PATCH", f"{MAPS}/x", patch, media))
    assert "managedFields" not in answer.body["metadata"]


def test_the_last_finalizer_goes_without_a_new_version(tmp_path: Path) -> None:
    kept = {"metadata": {"name": "x", "finalizers": ["a.example/f"]}}
    patch = ("PATCH", f"{MAPS}/x", {"metadata": {"finalizers": None}}, MERGE)
    before = answered(tmp_path / "a", ("POST", MAPS, kept), ("DELETE", f"{MAPS}/x"), ("GET", f"{MAPS}/x"))
    after = answered(tmp_path / "b", ("POST", MAPS, kept), ("DELETE", f"{MAPS}/x"), patch)
    assert after.body["metadata"]["resourceVersion"] == before.body["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("path", "made"),
    [
        (f"{APPS}/deployments", workload()),
        (ATTACHMENTS, named(spec={"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}})),
    ],
)
def test_a_status_does_not_set_labels_of_some_kinds(tmp_path: Path, path: str, made: Any) -> None:
    patch = ("PATCH", f"{path}/x/status", {"metadata": {"labels": {"n": "o"}}}, MERGE)
    answer = answered(tmp_path, ("POST", path, made), patch)
    assert answer.code == 200
    assert "labels" not in answer.body["metadata"]


def test_the_address_of_a_pod_is_the_first_of_its_addresses(tmp_path: Path) -> None:
    pod = ("POST", PODS, named(spec={"containers": CONTAINERS}))
    answer = answered(tmp_path, pod, ("PATCH", f"{PODS}/x/status", {"status": {"podIP": "10.9.8.7"}}, MERGE))
    assert answer.body["status"]["podIPs"] == [{"ip": "10.9.8.7"}]


def test_a_list_from_any_version_has_no_pages(tmp_path: Path) -> None:
    makes = [("POST", MAPS, {"metadata": {"name": name}}) for name in ("a", "b", "c")]
    answer = answered(tmp_path, *makes, ("GET", f"{MAPS}?limit=1&resourceVersion=0"))
    assert len(answer.body["items"]) == 3
    assert "continue" not in answer.body["metadata"]


def test_a_quoted_object_has_the_order_of_structs_and_of_opened_maps(tmp_path: Path) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    wrong = [{"op": "add", "path": "/rules/0/verbs", "value": "x"}]
    role = ("POST", f"{RBAC}/roles", named(rules=rules))
    answer = answered(tmp_path, role, ("PATCH", f"{RBAC}/roles/x", wrong, JSON_PATCH))
    assert r"\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":\"x\"}]" in answer.body["message"]
    assert r"\"managedFields\":[{\"manager\":\"unknown\",\"operation\"" in answer.body["message"]


def test_a_review_of_a_path_counts_the_groups_of_the_user(tmp_path: Path) -> None:
    for groups, allowed in (([], False), (["system:authenticated"], True)):
        spec = {"user": "ann", "groups": groups, "nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
        answer = answered(tmp_path / str(allowed), ("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec}))
        assert answer.body["status"]["allowed"] is allowed


def test_a_review_tells_of_selectors_that_it_cannot_read(tmp_path: Path) -> None:
    asked = {"verb": "list", "resource": "pods", "fieldSelector": {"requirements": [{"key": "a", "operator": "Odd"}]}}
    spec = {"user": "ann", "resourceAttributes": asked}
    answer = answered(tmp_path, ("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec}))
    assert answer.body["status"]["evaluationError"] == (
        "spec.resourceAttributes.fieldSelector ignored due to parse error"
    )


def test_yaml_keys_that_occur_twice_are_warned_of(tmp_path: Path) -> None:
    async def run() -> Answer:
        async with InProcess.started(tmp_path) as api:
            body = b"kind: ConfigMap\nmetadata:\n  name: d\n  name: e\n"
            response = await api.api(api.request("POST", MAPS, body, "application/yaml"))
            return Answer(response.code, None, response.warnings)

    answer = asyncio.run(run())
    assert (answer.code, answer.warnings) == (201, ('line 4: key "name" already set in map',))


THINGS = "/apis/a.example/v1/namespaces/default/things"
SPEC = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time"},
        "small": {"type": "integer", "format": "int32"},
        "net": {"type": "string", "format": "cidr"},
        "text": {"type": "string"},
        "inner": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.when) || self.when < timestamp('2030-01-01T00:00:00Z')", "message": "too late"},
        {
            "rule": "!oldSelf.hasValue() || self.text == oldSelf.value().text",
            "optionalOldSelf": True,
            "message": "text stays",
        },
    ],
}


def definition(**spec: Any) -> Any:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    whole = {"group": "a.example", "scope": "Namespaced", "names": names, "versions": [version], **spec}
    return {"metadata": {"name": "things.a.example"}, "spec": whole}


async def define(api: InProcess) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await api.make(path, definition())
    stream = await api.watch(f"{path}?watch=1&resourceVersion={made['metadata']['resourceVersion']}")
    established = False
    while not established:
        conditions = (await stream.next())["object"]["status"].get("conditions") or ()
        established = any((one["type"], one["status"]) == ("Established", "True") for one in conditions)
    await stream.close()


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ({"when": "2026-01-01T00:00:00Z", "text": "a"}, 201, ""),
        ({"when": "2031-01-01T00:00:00Z"}, 422, "spec: Invalid value: too late"),
        ({"small": 2**31}, 422, "Checked value must be of type integer with format int32 in spec.small"),
        ({"net": "10.0.0.0"}, 422, 'spec.net in body must be of type cidr: "10.0.0.0"'),
        (
            {"inner": {"apiVersion": "v1", "kind": "B", "metadata": {"name": 1}}},
            400,
            'spec.inner.metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.name of type string",
        ),
    ],
)
def test_custom_resources_are_checked_as_kubernetes_does(tmp_path: Path, spec: Any, code: int, said: str) -> None:
    async def run() -> Answer:
        async with InProcess.started(tmp_path) as api:
            await define(api)
            return await api.ask("POST", THINGS, thing(spec))

    answer = asyncio.run(run())
    assert (answer.code, said in str(answer.body.get("message", ""))) == (code, True), answer.body


def thing(spec: Any) -> Any:
    return {"apiVersion": "a.example/v1", "kind": "Thing", **named(spec=spec)}


def test_a_rule_may_compare_with_the_old_value_if_there_is_one(tmp_path: Path) -> None:
    async def run() -> Answer:
        async with InProcess.started(tmp_path) as api:
            await define(api)
            await api.make(THINGS, thing({"text": "a"}))
            return await api.ask("PATCH", f"{THINGS}/x", {"spec": {"text": "b"}}, MERGE)

    answer = asyncio.run(run())
    assert (answer.code, "text stays" in answer.body["message"]) == (422, True)


def test_a_definition_may_not_preserve_unknown_fields_as_a_whole(tmp_path: Path) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    refused = answered(tmp_path, ("POST", path, definition(preserveUnknownFields=True)))
    assert (refused.code, "cannot set to true" in refused.body["message"]) == (422, True)


def test_a_binding_to_a_missing_role_is_told_in_the_refusal(tmp_path: Path) -> None:
    async def run() -> Answer:
        async with InProcess.started(tmp_path) as api:
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
            await api.make(f"{RBAC}/rolebindings", named(roleRef=reference, subjects=[subject]))
            raw = api.request("GET", f"{MAPS}/x")
            raw.headers[b"impersonate-user"] = b"ann"
            response = await api.api(raw)
            return Answer(response.code, response.body, response.warnings)

    answer = asyncio.run(run())
    assert answer.code == 403
    assert b': RBAC: role.rbac.authorization.k8s.io \\"none\\" not found' in answer.body


@pytest.mark.parametrize(("form", "code"), [("Odd", 406), ("PartialObjectMetadataList", 404)])
def test_a_form_that_no_kind_has_is_refused_before_a_missing_name(tmp_path: Path, form: str, code: int) -> None:
    async def run() -> int:
        async with InProcess.started(tmp_path) as api:
            raw = api.request("GET", f"{MAPS}/none")
            raw.headers[b"accept"] = f"application/json;as={form};v=v1;g=meta.k8s.io".encode()
            return (await api.api(raw)).code

    assert asyncio.run(run()) == code
