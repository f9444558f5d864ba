"""Conversations about Jobs and pods, whose templates are wrong in one place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.embedded.beside.conversation import CORE, JSON_PATCH, MERGE, REMOVED, STRATEGIC, TABLE, Talk, changed

Json = Any
Edits = tuple[tuple[tuple[str | int, ...], Json], ...]

_JOBS = "/apis/batch/v1/namespaces/${ns}/jobs"
_CRON_JOBS = "/apis/batch/v1/namespaces/${ns}/cronjobs"
_PODS = f"{CORE}/pods"

POD_SPEC = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
}
_JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": POD_SPEC}}}

_JOB_SPECS: tuple[Json, ...] = (
    {},
    {"parallelism": 2, "completions": 3},
    {"parallelism": -1},
    {"completions": 0},
    {"completionMode": "Indexed"},
    {"completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5},
    {"completionMode": "Odd"},
    {"backoffLimit": -1, "activeDeadlineSeconds": -1},
    {"backoffLimitPerIndex": 1},
    {"ttlSecondsAfterFinished": -5},
    {"suspend": True, "podReplacementPolicy": "Failed"},
    {"podReplacementPolicy": "Odd"},
    {"manualSelector": True},
    {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
    {"selector": {"matchLabels": {"a": "b"}}},
    {"managedBy": "a.example/x"},
    {"managedBy": "odd"},
    {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 0]}}]}},
    {"podFailurePolicy": {"rules": [{"action": "Odd"}]}},
    {"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2]}}]}},
    {"podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
    {"successPolicy": {"rules": []}, "completionMode": "Indexed", "completions": 2},
    {"successPolicy": {"rules": [{"succeededIndexes": "0-5"}]}, "completionMode": "Indexed", "completions": 2},
    {"successPolicy": {"rules": [{"succeededCount": 1}]}},
)
TEMPLATES: Edits = (
    (("spec", "restartPolicy"), "Always"),
    (("spec", "restartPolicy"), REMOVED),
    (("spec", "containers"), []),
    (("spec", "containers", 0, "name"), "A"),
    (("spec", "containers", 0, "image"), ""),
    (("spec", "containers", 0, "resources"), {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    (("spec", "containers", 0, "resources"), {"requests": {"a.example/gpu": "1"}}),
    (("spec", "containers", 0, "env"), [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    (("spec", "containers", 0, "env"), [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "odd"}}}]),
    (("spec", "containers", 0, "ports"), [{"containerPort": 80}, {"containerPort": 80}]),
    (("spec", "containers", 0, "volumeMounts"), [{"name": "none", "mountPath": "/x"}]),
    (("spec", "containers", 0, "livenessProbe"), {"httpGet": {"port": 0}}),
    (("spec", "containers", 0, "imagePullPolicy"), "Odd"),
    (("spec", "containers", 0, "lifecycle"), {"preStop": {"sleep": {"seconds": 100}}}),
    (("spec", "containers", 0, "resizePolicy"), [{"resourceName": "cpu", "restartPolicy": "Odd"}]),
    (("spec", "containers", 0, "terminationMessagePolicy"), "Odd"),
    (("spec", "volumes"), [{"name": "v"}, {"name": "v", "emptyDir": {}}]),
    (("spec", "volumes"), [{"name": "v", "hostPath": {"path": "../x"}, "emptyDir": {}}]),
    (("spec", "tolerations"), [{"key": "a", "operator": "Exists", "value": "b"}]),
    (("spec", "tolerations"), [{"effect": "Odd"}]),
    (("spec", "nodeSelector"), {"a b": "c"}),
    (
        ("spec", "affinity"),
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    ),
    (("spec", "topologySpreadConstraints"), [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Odd"}]),
    (("spec", "schedulingGates"), [{"name": "a.example/x"}, {"name": "a.example/x"}]),
    (("spec", "terminationGracePeriodSeconds"), -1),
    (("spec", "activeDeadlineSeconds"), 0),
    (("spec", "priorityClassName"), "none"),
    (("spec", "hostname"), "A_b"),
    (("spec", "dnsPolicy"), "None"),
    (("spec", "securityContext"), {"runAsUser": -1, "sysctls": [{"name": "A", "value": ""}]}),
    (("spec", "initContainers"), [{"name": "c", "image": "i"}]),
    (("spec", "initContainers"), [{"name": "s", "image": "i", "restartPolicy": "Always"}]),
    (("spec", "overhead"), {"cpu": "1"}),
    (("spec", "hostNetwork"), True),
    (("spec", "unknown"), 1),
    (("spec", "resourceClaims"), [{"name": "a"}]),
    (("spec", "resources"), {"requests": {"cpu": "500m"}}),
    (("spec", "ephemeralContainers"), [{"name": "e", "image": "i"}]),
    (("spec", "nodeName"), "n"),
    (("spec", "os"), {"name": "odd"}),
    (("metadata", "labels"), {"a": "b"}),
    (("metadata", "annotations"), {"container.apparmor.security.beta.kubernetes.io/c": "odd"}),
)


def jobs(talk: Talk) -> None:
    random = talk.random
    place = f"{_JOBS}/j"
    for _ in range(2):
        body = changed(_JOB, [(("spec", "template", *path), value) for path, value in random.sample(TEMPLATES, 1)])
        talk.post(_JOBS, {**body, "spec": {**body["spec"], **random.choice(_JOB_SPECS)}})
    extra = random.choice(_JOB_SPECS)
    talk.post(_JOBS, {**_JOB, "spec": {**_JOB["spec"], **extra}})
    made = talk.post(_JOBS, {**_JOB, "metadata": {"name": "k"}}, managed=True)
    second = f"{_JOBS}/k"
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    steps = [
        lambda: talk.patch(place, {"spec": random.choice(_JOB_SPECS)}, random.choice((MERGE, STRATEGIC))),
        lambda: talk.edit(second, made, (("spec", "template", *(edit := random.choice(TEMPLATES))[0]), edit[1])),
        lambda: talk.edit(second, made, *((("spec", key), one) for key, one in random.choice(_JOB_SPECS).items())),
        lambda: talk.patch(second, {"spec": {"suspend": random.choice((True, False))}}, managed=True),
        lambda: talk.patch(second, {"spec": {"parallelism": random.choice((0, 3, -1, "x"))}}),
        lambda: talk.patch(f"{second}/status", {"status": {"active": random.choice((1, -1, "x"))}}),
        lambda: talk.patch(f"{second}/status", {"status": {"conditions": [condition]}}),
        lambda: talk.patch(
            f"{second}/status",
            {
                "status": {
                    "conditions": [{**condition, "type": "SuccessCriteriaMet"}],
                    "startTime": "2026-01-01T00:00:00Z",
                }
            },
        ),
        lambda: talk.patch(
            f"{second}/status", {"status": {"startTime": "2026-01-01T00:00:00Z", "ready": 1}}, managed=True
        ),
        lambda: talk.patch(
            f"{second}/status",
            {"status": {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}, "completedIndexes": "0-x"}},
        ),
        lambda: talk.get(_JOBS, TABLE),
        lambda: talk.get(f"{_JOBS}?fieldSelector=status.successful%3D0"),
        lambda: talk.post(_CRON_JOBS, _cron_job(talk)),
        lambda: talk.patch(f"{_CRON_JOBS}/c", {"spec": {"schedule": random.choice(("x", "@daily", "61 * * * *", ""))}}),
        lambda: talk.get(f"{_CRON_JOBS}", TABLE),
        lambda: talk.watch(_JOBS, made),
        lambda: talk.patch(second, [{"op": "replace", "path": "/spec/completions", "value": 5}], JSON_PATCH),
    ]
    for step in random.sample(steps, random.choice((7, 9, 11))):
        step()
    talk.delete(second + random.choice(("", "?propagationPolicy=Background", "?propagationPolicy=Foreground")))
    talk.delete(_JOBS)


def _cron_job(talk: Talk) -> Json:
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": _JOB["spec"]}}
    extra: tuple[Json, ...] = (
        {},
        {"schedule": "* * * *"},
        {"schedule": "TZ=UTC 0 * * * *"},
        {"timeZone": "Odd/Place"},
        {"timeZone": "Etc/UTC"},
        {"concurrencyPolicy": "Odd"},
        {"startingDeadlineSeconds": -1},
        {"successfulJobsHistoryLimit": -1},
    )
    return {"metadata": {"name": "c"}, "spec": {**spec, **talk.random.choice(extra)}}


def pods(talk: Talk) -> None:
    random = talk.random
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": copy.deepcopy(POD_SPEC),
    }
    place = f"{_PODS}/p"
    for _ in range(3):
        talk.post(_PODS, changed(pod, random.sample(TEMPLATES, random.choice((1, 2)))))
    talk.delete(f"{place}?gracePeriodSeconds=0")
    made = talk.post(_PODS, pod, managed=True)
    steps = _pod_steps(talk, place, made)
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    talk.delete(place + random.choice(("", "?gracePeriodSeconds=5", "?gracePeriodSeconds=0", "?gracePeriodSeconds=-3")))
    talk.get(place, TABLE)
    talk.delete(f"{place}?gracePeriodSeconds=0")


def _pod_steps(talk: Talk, place: str, made: int) -> list[Callable[[], int]]:
    random = talk.random
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    resize = {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": random.choice(("2", "x", "1"))}}}]}
    }
    debug = {
        "spec": {"ephemeralContainers": [{"name": random.choice(("d", "c")), "image": "i", "targetContainerName": "c"}]}
    }
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.9.8.7"}}
    state = {"name": "c", "ready": True, "restartCount": 1, "image": "i", "imageID": "", "state": {"running": {}}}
    return [
        lambda: talk.post(f"{place}/binding", changed(binding, random.choice(_BINDINGS))),
        lambda: talk.post(f"{CORE}/bindings", binding),
        lambda: talk.post(f"{place}/eviction", random.choice(_EVICTIONS)),
        lambda: talk.post("/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets", budget),
        lambda: talk.patch(f"{place}/resize", resize, STRATEGIC, managed=True),
        lambda: talk.patch(f"{place}/ephemeralcontainers", debug, STRATEGIC),
        lambda: talk.get(
            f"{place}/{random.choice(('log', 'status', 'resize', 'ephemeralcontainers', 'exec', 'binding'))}"
        ),
        lambda: talk.get(
            f"{place}/log?{random.choice(('container=none', 'tailLines=-1', 'sinceSeconds=0', 'follow=x'))}"
        ),
        lambda: talk.patch(f"{place}/status", ready, STRATEGIC, managed=True),
        lambda: talk.patch(f"{place}/status", {"status": {"containerStatuses": [state]}}, MERGE),
        lambda: talk.patch(f"{place}/status", {"status": {"phase": "Odd", "qosClass": "Guaranteed"}}, MERGE),
        lambda: talk.edit(place, made, random.choice(TEMPLATES)),
        lambda: talk.edit(place, made, (("spec", "containers", 0, "image"), "j"), managed=True),
        lambda: talk.patch(place, {"spec": {"activeDeadlineSeconds": random.choice((5, 0, -1))}}),
        lambda: talk.patch(
            place, {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}, random.choice((MERGE, STRATEGIC))
        ),
        lambda: talk.patch(place, {"metadata": {"labels": {"a": None}}, "spec": {"nodeName": "n"}}),
        lambda: talk.get(_PODS, TABLE),
        lambda: talk.get(
            f"{_PODS}?fieldSelector={random.choice(('spec.nodeName%3Dn', 'status.phase%3DPending', 'spec.x%3Dy'))}"
        ),
        lambda: talk.watch(_PODS, made, accept=random.choice(("", TABLE.split(",")[0]))),
    ]


_BINDINGS: tuple[Edits, ...] = (
    (),
    ((("target", "kind"), "Pod"),),
    ((("target", "name"), ""),),
    ((("metadata", "uid"), "u"),),
    ((("metadata", "name"), "q"),),
    ((("target",), REMOVED),),
    ((("metadata", "annotations"), {"a": "b"}),),
)
_EVICTIONS: tuple[Json, ...] = (
    {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
    {"metadata": {"name": "q"}},
    {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}},
    {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "u"}}},
    {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": -1, "propagationPolicy": "Odd"}},
    {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}},
    {},
)
