"""Answers that a kube-apiserver 1.36.2 gave to the same requests, where this server's had been others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.endpoints.test_words_of_kubernetes import APPLY, JOB, JOBS, MERGE, POD, PODS, STRATEGIC
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow  # each test starts an API server; `test_answers_protobuf` and its neighbours are fast

MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"metadata": {"name": "m"}}
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        ("propagationPolicy=Odd", OPTIONS, 200),
        ("gracePeriodSeconds=x", OPTIONS, 200),
        ("dryRun=Odd", OPTIONS, 200),
        ("orphanDependents=true&propagationPolicy=Orphan", {"unknown": 1}, 200),
        ("gracePeriodSeconds=x", None, 400),
        ("propagationPolicy=Odd", None, 422),
        ("", {**OPTIONS, "dryRun": ["Odd"]}, 422),
    ],
)
def test_a_body_of_a_deletion_stands_for_its_query(tmp_path: Path, query: str, body: Any, code: int) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, MAP)
            assert (await api.ask("DELETE", f"{MAPS}/m?{query}", body)).code == code

    asyncio.run(scene())


DEPRECATED = ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)


def test_each_answer_about_endpoints_warns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            path = "/api/v1/namespaces/default/endpoints"
            for method, where in (("POST", path), ("GET", path), ("GET", f"{path}/m"), ("DELETE", f"{path}/m")):
                assert (await api.ask(method, where, MAP if method == "POST" else None)).warnings == DEPRECATED

    asyncio.run(scene())


STALE = "AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: "


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (PODS, POD, "pods/default/p"),
        (JOBS, JOB, "jobs/default/j"),
        ("/api/v1/nodes", {"metadata": {"name": "n"}}, "minions/n"),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "l"}}, "leases/default/l"),
    ],
)
def test_another_identity_is_told_before_a_missing_version(tmp_path: Path, path: str, body: Any, place: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            made = await api.make(path, body)
            other = {**body, "metadata": {**body["metadata"], "uid": "u"}}
            for query, first in (("", "/registry"), ("?dryRun=All", "")):
                refused = await api.ask("PUT", f"{path}/{body['metadata']['name']}{query}", other)
                key = f"StorageError: invalid object, Code: 4, Key: {first}/{place}, ResourceVersion: 0, {STALE}"
                assert refused.code == 409
                assert refused.body["message"].endswith(key + made["metadata"]["uid"])

    asyncio.run(scene())


def test_what_a_write_counts_and_fills_in(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(PODS, POD)
            same = await api.ask("PUT", f"{PODS}/p", POD)
            assert same.body["metadata"]["generation"] == 1, "admission puts back what it had added"
            volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
            made = await api.make("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
            assert made["status"]["lastPhaseTransitionTime"] == made["metadata"]["creationTimestamp"]
            slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
            await api.make(slices, {**MAP, "addressType": "IPv4", "endpoints": []})
            labelled = await api.ask("PATCH", f"{slices}/m", {"metadata": {"labels": {"a": "b"}}}, MERGE)
            assert labelled.body["metadata"]["generation"] == 2
            classes = "/apis/networking.k8s.io/v1/ingressclasses"
            given = {"controller": "a.example/c", "parameters": {"kind": "K", "name": "n"}}
            made = await api.make(classes, {**MAP, "spec": given})
            assert made["spec"]["parameters"]["scope"] == "Cluster"

    asyncio.run(scene())


def test_directives_in_a_new_list_are_dropped(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, MAP)
            patch = {"metadata": {"finalizers": [{"$patch": "replace"}]}}
            assert (await api.ask("PATCH", f"{MAPS}/m", patch, STRATEGIC)).code == 200

    asyncio.run(scene())


def test_a_job_without_its_selector_does_not_match_its_template(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(JOBS, JOB)
            refused = await api.ask("PUT", f"{JOBS}/j", JOB)
            found = [(one["field"], one["message"]) for one in refused.body["details"]["causes"]]
            unmatched = "Invalid value: null: `selector` does not match template `labels`"
            assert found.count(("spec.template.metadata.labels", unmatched)) == 2

    asyncio.run(scene())


def test_a_watch_tells_where_its_beginning_ends(tmp_path: Path) -> None:
    """Watches without a version, too, in each form."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for form in ("", "PartialObjectMetadata", "Table"):
                accept = f"application/json;as={form};v=v1;g=meta.k8s.io" if form else "application/json"
                stream = await api.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true", accept)
                event = await stream.next()
                shown = event["object"]["rows"][0]["object"] if form == "Table" else event["object"]
                assert event["type"] == "BOOKMARK"
                assert event["object"]["kind"] == (form or "ConfigMap")
                assert shown["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
                await stream.close()

    asyncio.run(scene())


SERVICES = "/api/v1/namespaces/default/services"
ONLY_BALANCED = "Forbidden: may only be used when `type` is 'LoadBalancer'"


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"externalTrafficPolicy": "Local"}, [
            'externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'
        ]),
        ({"trafficDistribution": "Odd"}, [
            'trafficDistribution: Unsupported value: "Odd": supported values: "PreferClose", "PreferSameZone", '
            '"PreferSameNode"'
        ]),
        ({"loadBalancerClass": "a/b"}, [f"loadBalancerClass: {ONLY_BALANCED}"]),
        ({"healthCheckNodePort": 30000}, [
            "healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'"
        ]),
    ],
)  # fmt: skip
def test_services_are_refused_in_the_words_of_kubernetes(tmp_path: Path, spec: Any, found: list[str]) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            refused = await api.ask("POST", SERVICES, {**MAP, "spec": {"ports": [{"port": 80}], **spec}})
            causes = [f"{one['field']}: {one['message']}" for one in refused.body["details"]["causes"]]
            assert causes == [f"spec.{one}" for one in found]

    asyncio.run(scene())


def test_services_warn_of_what_is_ignored(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            spec = {"ports": [{"port": 80}], "externalName": "a.b", "externalIPs": ["1.2.3.4"]}
            made = await api.ask("POST", SERVICES, {**MAP, "spec": spec})
            assert made.warnings == (
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                'spec.externalName is ignored when spec.type is not "ExternalName"',
            )
            assert made.body["spec"]["externalTrafficPolicy"] == "Cluster"
            await api.ask("PATCH", f"{SERVICES}/m", {"spec": {"type": "LoadBalancer"}}, MERGE)
            status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}
            shown = await api.ask("PATCH", f"{SERVICES}/m/status", status, MERGE)
            assert shown.body["status"]["loadBalancer"]["ingress"] == [{"ip": "1.1.1.1", "ipMode": "VIP"}]

    asyncio.run(scene())


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RULES = {
    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
}


async def bind(api: InProcess, spec: dict[str, Any], **binding: Any) -> None:
    await api.make(POLICIES, {"metadata": {"name": "p"}, "spec": {"matchConstraints": RULES, **spec}})
    await api.make(BINDINGS, {"metadata": {"name": "p"}, "spec": {"policyName": "p", **binding}})


def test_policies_judge_deletions_and_warn(tmp_path: Path) -> None:
    """An object that is deleted has no fields; a condition that cannot be evaluated is a violation like another."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, MAP)
            condition = {"name": "c", "expression": "object.metadata.name != 'x'"}
            rule = {"expression": "namespaceObject.metadata.name == 'x'"}
            await bind(api, {"matchConditions": [condition], "validations": [rule]}, validationActions=["Warn"])
            said = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': "
            broken = f"{said}expression 'object.metadata.name != 'x'' resulted in error: no such key: metadata"
            assert (await api.ask("DELETE", f"{MAPS}/m")).warnings == (broken,)
            assert (await api.ask("POST", MAPS, MAP)).warnings == (f"{said}failed expression: {rule['expression']}",)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("labels", "code", "said"),
    [
        ([{"limit": "a"}], 201, ""),
        ([{"limit": "a"}, {"limit": "a", "b": "c"}], 422, "failed expression: params.metadata.name == 'c0'"),
        (
            [],
            422,
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
    ],
)
def test_a_selector_names_the_parameters(tmp_path: Path, labels: list[Any], code: int, said: str) -> None:
    """A policy holds for each of them."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for number, given in enumerate(labels):
                await api.make(MAPS, {"metadata": {"name": f"c{number}", "labels": given}})
            reference = {"selector": {"matchLabels": {"limit": "a"}}, "parameterNotFoundAction": "Deny"}
            spec = {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": "params.metadata.name == 'c0'"}],
            }
            await bind(api, spec, validationActions=["Deny"], paramRef=reference)
            answer = await api.ask("POST", MAPS, MAP)
            assert answer.code == code
            assert answer.body.get("message", "").endswith(said)

    asyncio.run(scene())


def test_expressions_of_policies_have_the_type_that_is_asked_for(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            spec = {"matchConstraints": RULES, "validations": [{"expression": "'a'"}]}
            refused = await api.ask("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})
            assert refused.body["message"].endswith("must evaluate to bool but got string")
            patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": "1"}}
            spec = {"matchConstraints": RULES, "reinvocationPolicy": "Never", "mutations": [patch]}
            path = POLICIES.replace("validating", "mutating")
            refused = await api.ask("POST", path, {"metadata": {"name": "p"}, "spec": spec})
            assert refused.body["message"].endswith("must evaluate to list(JSONPatch) but got int")

    asyncio.run(scene())


def test_a_review_says_which_binding_allows(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
            rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
            await api.make(f"{roles}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
            users = [{"kind": "User", "name": "ada"}]
            await api.make(f"{roles}/rolebindings", {"metadata": {"name": "b"}, "roleRef": role, "subjects": users})
            asked = {"namespace": "default", "verb": "get", "group": "", "resource": "pods"}
            review = {"spec": {"user": "ada", "resourceAttributes": asked}}
            path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
            answer = (await api.ask("POST", path, review)).body
            why = 'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "ada"'
            assert answer["status"] == {"allowed": True, "reason": why}
            assert "group" not in answer["spec"]["resourceAttributes"]

    asyncio.run(scene())


def test_small_things_beside_kubernetes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(PODS, POD)
            patched = await api.ask("PATCH", f"{PODS}/p?fieldValidation=Strict", {"$patch": "delete"}, MERGE)
            assert patched.code == 422, "a directive of another language is an unknown field"
            older = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
            assert (await api.ask("POST", f"{PODS}/p/eviction", older)).code == 201
            versioned = {"metadata": {"name": "m", "resourceVersion": "5"}}
            dry = await api.ask("POST", f"{MAPS}?dryRun=All", versioned)
            assert (dry.code, dry.body["metadata"]["resourceVersion"]) == (201, "5")
            assert (await api.ask("POST", MAPS, versioned)).code == 500
            classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
            await api.make(classes, {**MAP, "value": 1})
            described = await api.ask("PATCH", f"{classes}/m", {"description": "d"}, MERGE)
            assert described.body["metadata"]["generation"] == 1

    asyncio.run(scene())


def test_an_apply_in_another_order_keeps_what_others_own(tmp_path: Path) -> None:
    """The items of a list are merged, also those that the configuration names later than the object has them."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            path = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager="

            def deployment(*containers: Any) -> dict[str, Any]:
                template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [*containers]}}
                spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
                return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

            one, other = ({"name": name, "image": "i"} for name in "xy")
            await api.ask("PATCH", f"{path}first", deployment({**other, "env": [{"name": "A", "value": "1"}]}), APPLY)
            await api.ask("PATCH", f"{path}second", deployment(one), APPLY)
            both = await api.ask("PATCH", f"{path}second", deployment(one, other), APPLY)
            found = both.body["spec"]["template"]["spec"]["containers"]
            assert [(each["name"], each.get("env")) for each in found] == [
                ("x", None),
                ("y", [{"name": "A", "value": "1"}]),
            ]

    asyncio.run(scene())


def test_the_first_document_of_yaml_is_read(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\n---\na: b\n"
            answer = await api.api(api.request("POST", MAPS, text, "application/yaml"))
            assert answer.code == 201
            assert (await api.api(api.request("HEAD", f"{MAPS}/m"))).code == 405

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        ("Object{nope: 1}", "error applying patch: failed to convert patch object to typed object: .nope: field not "
         "declared in schema"),
        ("Object{data: Object.data{a: object.nope}}", "expression 'Object{data: Object.data{a: object.nope}}' resulted "
         "in error: no such key: nope"),
        ("[JSONPatch{op: 'remove', path: '/nothing'}]", "JSON Patch: error in remove for path: '/nothing': Unable to "
         "remove nonexistent key: nothing: missing value"),
        ("[JSONPatch{op: 'test', path: '/metadata/name', value: 'q'}]", ""),
    ],
)  # fmt: skip
def test_a_mutation_that_fails_is_a_refusal(tmp_path: Path, mutation: str, said: str) -> None:
    """A test in a JSON patch that fails leaves the object as it is."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            form = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mutation}}
            if mutation.startswith("["):
                form = {"patchType": "JSONPatch", "jsonPatch": {"expression": mutation}}
            spec = {"matchConstraints": RULES, "reinvocationPolicy": "Never", "mutations": [form]}
            await api.make(POLICIES.replace("validating", "mutating"), {"metadata": {"name": "p"}, "spec": spec})
            bound = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
            await api.make(BINDINGS.replace("validating", "mutating"), bound)
            answer = await api.ask("POST", MAPS, MAP)
            assert answer.code == (403 if said else 201)
            if said:
                assert answer.body["message"] == f"policy 'p' with binding 'p' denied request: {said}"

    asyncio.run(scene())


def test_annotations_of_a_deployment_count(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            path = "/apis/apps/v1/namespaces/default/deployments"
            template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
            await api.make(path, {**MAP, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
            noted = await api.ask("PATCH", f"{path}/m", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
            assert noted.body["metadata"]["generation"] == 2

    asyncio.run(scene())
