"""The real kubectl against the server: what a user types."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: host, command: [sleep, "60"]}]}
"""
Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(api_server: ServerProcess, tmp_path: Any, request: pytest.FixtureRequest) -> Kubectl:
    """Runs kubectl in a namespace of its own; its output, or with `fails=True` its complaint."""
    environment = os.environ | {"KUBECONFIG": str(api_server.kubeconfig), "HOME": str(tmp_path)}
    namespace = request.node.name.replace("_", "-")[:60].strip("-")
    api_server.make_namespace(namespace)

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        command = [KUBECTL, "--namespace", namespace, *arguments]
        done = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, timeout=240)
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_apply_get_describe_explain(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"
    assert kubectl("get", "pods").splitlines()[1].split()[:4] == ["web", "0/1", "Pending", "0"]
    assert "QoS Class:        BestEffort" in kubectl("describe", "pod", "web")
    assert "KIND:       Pod" in kubectl("explain", "pod.spec.containers")
    assert "jobs" in kubectl("api-resources", "--api-group=batch")


def test_a_wrong_field_is_named(kubectl: Kubectl) -> None:
    assert 'unknown field "spec.containers[0].imaje"' in kubectl(
        "apply", "-f", "-", stdin=POD.replace("image:", "imaje:"), fails=True
    )


def test_a_list_is_what_its_items_are(kubectl: Kubectl) -> None:
    """As `kubectl get -o yaml` writes it, and back. kubectl looks such a file up in OpenAPI v2."""
    kubectl("create", "-f", "-", stdin=POD)
    saved = kubectl("get", "pods", "-o", "yaml")
    assert "kind: List" in saved
    kubectl("delete", "pod", "web", "--now")
    assert kubectl("create", "-f", "-", stdin=saved.replace("resourceVersion:", "selfLink:")) == "pod/web created\n"
    assert "pod/web configured" in kubectl("apply", "-f", "-", stdin=kubectl("get", "pods", "-o", "yaml"))
    wrong = saved.replace("image:", "imaje:")
    assert 'unknown field "spec.containers[0].imaje"' in kubectl("apply", "-f", "-", stdin=wrong, fails=True)


def test_label_annotate_patch_and_select(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("label", "pod", "web", "tier=front")
    kubectl("annotate", "pod", "web", "note=x")
    kubectl("patch", "pod", "web", "-p", '{"metadata":{"labels":{"tier":"back"}}}')
    assert kubectl("get", "pods", "-l", "tier in (back)", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == ""


def test_wait_and_delete(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    assert "timed out" in kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=2s", fails=True)
    assert kubectl("delete", "pod", "web").startswith('pod "web" deleted')
    assert "NotFound" in kubectl("get", "pod", "web", fails=True)


def test_imperative_commands_send_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "settings", "--from-literal=a=1")
    assert kubectl("get", "configmap", "settings", "-o", "jsonpath={.data}") == '{"a":"1"}'
    kubectl("create", "job", "train", "--image=host", "--", "sleep", "5")
    assert '"command":["sleep","5"]' in kubectl("get", "job", "train", "-o", "jsonpath={.spec.template.spec}")
    assert kubectl("auth", "can-i", "create", "jobs") == "yes\n"


def test_describe_reads_protobuf(kubectl: Kubectl) -> None:
    """Go's own generated code decodes what we encode: kubectl asks for protobuf wherever it knows a kind."""
    limited = POD.replace("image: host,", "image: host, resources: {limits: {cpu: 1500m}},")
    kubectl("apply", "-f", "-", stdin=limited)
    told = kubectl("describe", "pod", "web", "--v=8")
    assert re.search(r"Command:\s+sleep\s+60\n", told)
    assert re.search(r"Limits:\s+cpu:\s+1500m\n", told)
    kubectl("create", "cronjob", "nightly", "--image=host", "--schedule=0 3 * * *", "--", "true")
    assert re.search(r"Schedule:\s+0 3 \* \* \*\n", kubectl("describe", "cronjob", "nightly"))


def test_drain_evicts_what_runs_on_a_node(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin="apiVersion: v1\nkind: Node\nmetadata: {name: drained}")
    kubectl(
        "create",
        "-f",
        "-",
        stdin=POD.replace("spec: {", "spec: {terminationGracePeriodSeconds: 0, nodeName: drained, "),
    )
    kubectl("drain", "drained", "--force", "--timeout=200s")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_server_side_apply_conflicts(kubectl: Kubectl) -> None:
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {k: '%s'}"
    kubectl("apply", "--server-side", "-f", "-", stdin=settings % 1)
    refused = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=settings % 2, fails=True)
    assert 'conflict with "kubectl"' in refused


COMMANDS = (
    "create job made --image=host",
    "create cronjob made --image=host --schedule=@daily",
    "create configmap made --from-literal=a=1",
    "create secret generic made --from-literal=a=1",
    "create namespace made",
    "create quota made --hard=pods=2 --scopes=BestEffort",
    "create serviceaccount made",
    "create poddisruptionbudget made --selector=a=b --min-available=50%",
    "create priorityclass made --value=-5 --description=x --preemption-policy=Never",
    "create role made --verb=get,list --resource=pods,jobs.batch --resource-name=x",
    "create clusterrole made --verb=get --non-resource-url=/x",
    "create clusterrole made --aggregation-rule=a=b",
    "create rolebinding made --role=r --serviceaccount=default:x --user=u --group=g",
    "create service nodeport made --tcp=80:http --node-port=30080",
    "create service externalname made --external-name=a.b",
    "create deployment made --image=host --replicas=3 --port=80",
    "run made --image=host --env=A=b --labels=x=y --port=80",
)


def test_protobuf_makes_what_json_makes(kubectl: Kubectl) -> None:
    """kubectl shows what it would send (--dry-run=client): sent as JSON, that gives the same object."""
    for command in COMMANDS:
        shown = kubectl(*command.split(), "--dry-run=client", "--output=json")
        as_json = kubectl("create", "--filename=-", "--dry-run=server", "--output=json", stdin=shown)
        as_protobuf = kubectl(*command.split(), "--dry-run=server", "--output=json")
        assert timeless(as_protobuf) == timeless(as_json), command


def timeless(text: str) -> Any:
    """An object without what differs between two creations."""
    uid = json.loads(text)["metadata"].get("uid") or "-"
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text.replace(uid, "UID")))


def test_a_token_of_a_service_account(kubectl: Kubectl, api_server: ServerProcess) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=1h").strip()
    review = api_server.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=token)
    assert review.body["status"]["userInfo"]["username"].endswith(":robot")
    assert api_server.ask("GET", "/api/v1/pods", token=token).code == 403


def test_sets_are_taken_and_of_a_daemon_set_kubectl_says_that_nobody_acts_on_it(kubectl: Kubectl) -> None:
    made = kubectl("create", "deployment", "web", "--image=host", "--warnings-as-errors")
    assert made == "deployment.apps/web created\n"
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "1"
    deployment = json.loads(kubectl("get", "deployment", "web", "-o", "json"))
    spec = {name: deployment["spec"][name] for name in ("replicas", "selector", "template")} | {"serviceName": "web"}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}
    kubectl("create", "-f", "-", "--warnings-as-errors", stdin=json.dumps(stateful))
    daemons: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}}
    daemons["spec"] = {name: spec[name] for name in ("selector", "template")}
    said = kubectl("create", "-f", "-", "--warnings-as-errors", stdin=json.dumps(daemons), fails=True)
    assert "no controller" in said


def test_an_autoscaler_is_stored_and_says_that_it_does_not_scale(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=host")
    kubectl("autoscale", "deployment", "web", "--max=3")
    shown = kubectl("get", "hpa", "web", "--no-headers").split()
    assert shown[:6] == ["web", "Deployment/web", "<unknown>", "1", "3", "0"]
    kubectl("wait", "hpa/web", "--for=condition=ScalingActive=false", "--timeout=60s")
    described = kubectl("describe", "hpa", "web")
    assert "NoController" in described
    assert "the number of replicas does not change" in described
    assert "maxReplicas" in kubectl("patch", "hpa", "web", "--patch", '{"spec": {"maxReplicas": 0}}', fails=True)
