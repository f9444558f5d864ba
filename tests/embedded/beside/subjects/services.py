"""Conversations about services, and about the kinds of apps/v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.embedded.beside.conversation import CORE, MERGE, REMOVED, STRATEGIC, TABLE, Talk, changed
from tests.embedded.beside.subjects.workloads import POD_SPEC, TEMPLATES, Edits

Json = Any

_SERVICES = f"{CORE}/services"
_APPS = "/apis/apps/v1/namespaces/${ns}"

_PORT = {"name": "p", "port": 80}
_SERVICE_SPECS: tuple[Json, ...] = (
    {"ports": [_PORT], "selector": {"a": "b"}},
    {"ports": [_PORT], "clusterIP": "None"},
    {"ports": [_PORT], "clusterIP": "10.9.8.7"},
    {"ports": [_PORT], "clusterIP": "odd"},
    {"ports": [_PORT], "type": "NodePort"},
    {"ports": [{**_PORT, "nodePort": 80}], "type": "NodePort"},
    {"ports": [{**_PORT, "nodePort": 30080}]},
    {"ports": [_PORT], "type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8", "x"]},
    {
        "ports": [_PORT],
        "type": "LoadBalancer",
        "allocateLoadBalancerNodePorts": False,
        "loadBalancerClass": "a.example/b",
    },
    {"type": "ExternalName", "externalName": "a.example"},
    {"type": "ExternalName"},
    {"type": "ExternalName", "externalName": "A_b", "clusterIP": "None"},
    {"type": "Odd", "ports": [_PORT]},
    {"ports": []},
    {"ports": [_PORT, _PORT]},
    {"ports": [{"port": 80}, {"port": 81}]},
    {"ports": [{"port": 0, "protocol": "Odd", "targetPort": "A_"}]},
    {"ports": [{**_PORT, "targetPort": 70000, "appProtocol": "a b"}]},
    {"ports": [_PORT], "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}},
    {"ports": [_PORT], "sessionAffinity": "Odd"},
    {"ports": [_PORT], "externalTrafficPolicy": "Local", "type": "NodePort"},
    {"ports": [_PORT], "internalTrafficPolicy": "Odd"},
    {"ports": [_PORT], "ipFamilies": ["IPv6"]},
    {"ports": [_PORT], "ipFamilyPolicy": "PreferDualStack"},
    {"ports": [_PORT], "ipFamilyPolicy": "RequireDualStack"},
    {"ports": [_PORT], "ipFamilyPolicy": "Odd", "ipFamilies": ["IPv4", "IPv4"]},
    {"ports": [_PORT], "externalIPs": ["1.2.3.4", "127.0.0.1", "x"]},
    {"ports": [_PORT], "healthCheckNodePort": 30000},
    {"ports": [_PORT], "trafficDistribution": "PreferClose"},
    {"ports": [_PORT], "selector": {"a b": "c"}},
    {"ports": [_PORT], "publishNotReadyAddresses": True},
)


def services(talk: Talk) -> None:
    random = talk.random
    place = f"{_SERVICES}/s"
    for number in range(4):
        name = ("s", "s", "t", "A_b")[number]
        talk.post(_SERVICES, {"metadata": {"name": name}, "spec": random.choice(_SERVICE_SPECS)}, managed=number == 0)
    spec = random.choice((_SERVICE_SPECS[0], *(one for one in _SERVICE_SPECS if one.get("ports") == [_PORT])))
    made = talk.post(_SERVICES, {"metadata": {"name": "u"}, "spec": spec})
    steps = [
        lambda: talk.patch(place, {"spec": random.choice(_SERVICE_SPECS)}),
        lambda: talk.patch(f"{_SERVICES}/u", {"spec": random.choice(_SERVICE_SPECS)}, STRATEGIC),
        lambda: talk.edit(
            f"{_SERVICES}/u", made, *((("spec", key), one) for key, one in random.choice(_SERVICE_SPECS).items())
        ),
        lambda: talk.edit(
            f"{_SERVICES}/u", made, (("spec", "type"), random.choice(("ExternalName", "NodePort", "ClusterIP")))
        ),
        lambda: talk.edit(f"{_SERVICES}/u", made, (("spec", "clusterIP"), random.choice(("", "None", REMOVED)))),
        lambda: talk.edit(f"{_SERVICES}/u", made, (("spec", "clusterIPs"), random.choice(([], ["None"], REMOVED)))),
        lambda: talk.put(place, {"metadata": {"name": "s"}, "spec": random.choice(_SERVICE_SPECS)}),
        lambda: talk.patch(f"{place}/status", {"status": {"loadBalancer": {"ingress": [random.choice(_INGRESSES)]}}}),
        lambda: talk.patch(
            f"{_SERVICES}/u/status", {"status": {"conditions": [{"type": "A", "status": "True"}]}}, managed=True
        ),
        lambda: talk.get(_SERVICES, TABLE),
        lambda: talk.get(
            f"{_SERVICES}?fieldSelector={random.choice(('spec.type%3DClusterIP', 'spec.clusterIP%3DNone', 'a%3Db'))}"
        ),
        lambda: talk.get(f"{place}/proxy"),
        lambda: talk.delete(place),
        lambda: talk.watch(_SERVICES, made),
    ]
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    talk.get(place, TABLE)
    talk.delete(_SERVICES)


_INGRESSES: tuple[Json, ...] = (
    {"ip": "1.2.3.4"},
    {"hostname": "a.example"},
    {"ip": "x"},
    {"hostname": "1.2.3.4"},
    {"ipMode": "Odd"},
)


def applications(talk: Talk) -> None:
    """Deployments and their relatives: templates, strategies, scale, status."""
    random = talk.random
    kind, plural = random.choice(
        (
            ("Deployment", "deployments"),
            ("StatefulSet", "statefulsets"),
            ("ReplicaSet", "replicasets"),
            ("DaemonSet", "daemonsets"),
        )
    )
    path, place = f"{_APPS}/{plural}", f"{_APPS}/{plural}/d"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD_SPEC, "restartPolicy": "Always"}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    good = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d", "labels": {"x": "y"}}, "spec": spec}
    for _ in range(3):
        where, value = random.choice(TEMPLATES)
        talk.post(path, changed(good, [random.choice(((("spec", "template", *where), value), random.choice(_SPECS)))]))
    talk.delete(place)
    made = talk.post(path, good, managed=True)
    steps = _application_steps(talk, path, place, made)
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    talk.delete(place + random.choice(("", "?propagationPolicy=Foreground", "?propagationPolicy=Orphan")))
    talk.get(place)


def _application_steps(talk: Talk, path: str, place: str, made: int) -> list[Callable[[], int]]:
    random = talk.random
    return [
        lambda: talk.get(f"{place}/scale"),
        lambda: talk.patch(f"{place}/scale", {"spec": {"replicas": random.choice((0, 3, -1, "x"))}}, managed=True),
        lambda: talk.put(f"{place}/scale", {"metadata": {"name": "d"}, "spec": {"replicas": 4}}, managed=True),
        lambda: talk.patch(place, {"spec": {"replicas": random.choice((2, -2, None))}}, STRATEGIC, managed=True),
        lambda: talk.edit(place, made, random.choice(_SPECS)),
        lambda: talk.edit(place, made, (("spec", "template", *(edit := random.choice(TEMPLATES))[0]), edit[1])),
        lambda: talk.patch(
            f"{place}/status", {"status": random.choice(_STATUSES)}, random.choice((MERGE, STRATEGIC)), managed=True
        ),
        lambda: talk.patch(f"{place}/status", {"metadata": {"labels": {"n": "o"}}, "status": {"replicas": 1}}),
        lambda: talk.get(path, TABLE),
        lambda: talk.patch(
            place,
            {
                "spec": {
                    "template": {"spec": {"containers": [{"name": "c", "image": "j"}, {"name": "e", "image": "k"}]}}
                }
            },
            STRATEGIC,
            managed=True,
        ),
        lambda: talk.patch(
            place,
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "c"}],
                            "containers": [{"name": "c", "$patch": "delete"}],
                        }
                    }
                }
            },
            STRATEGIC,
        ),
        lambda: talk.patch(place, {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "2"}}}),
        lambda: talk.watch(path, made),
        lambda: talk.get(f"{path}?fieldSelector=status.replicas%3D0"),
    ]


_SPECS: Edits = (
    (("spec", "replicas"), -1),
    (("spec", "selector"), REMOVED),
    (("spec", "selector"), {}),
    (("spec", "selector", "matchLabels", "a"), "c"),
    (("spec", "selector", "matchExpressions"), [{"key": "a", "operator": "Odd"}]),
    (("spec", "strategy"), {"type": "Recreate", "rollingUpdate": {}}),
    (("spec", "strategy"), {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
    (("spec", "strategy"), {"rollingUpdate": {"maxUnavailable": "150%", "maxSurge": "x"}}),
    (("spec", "strategy"), {"type": "Odd"}),
    (("spec", "updateStrategy"), {"type": "OnDelete"}),
    (("spec", "updateStrategy"), {"type": "Odd"}),
    (("spec", "updateStrategy"), {"rollingUpdate": {"maxUnavailable": "0%", "partition": -1}}),
    (("spec", "minReadySeconds"), -1),
    (("spec", "revisionHistoryLimit"), -1),
    (("spec", "progressDeadlineSeconds"), 0),
    (("spec", "progressDeadlineSeconds"), 5),
    (("spec", "serviceName"), "A_b"),
    (("spec", "podManagementPolicy"), "Odd"),
    (("spec", "podManagementPolicy"), "Parallel"),
    (("spec", "persistentVolumeClaimRetentionPolicy"), {"whenDeleted": "Odd"}),
    (("spec", "volumeClaimTemplates"), [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]),
    (("spec", "ordinals"), {"start": -1}),
    (("spec", "paused"), True),
    (("spec", "template", "metadata", "labels"), {"z": "y"}),
)
_STATUSES: tuple[Json, ...] = (
    {"replicas": 1, "readyReplicas": 2},
    {"replicas": -1},
    {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 3},
    {"conditions": [{"type": "Available", "status": "True"}]},
    {"collisionCount": -1},
    {"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 5},
    {"odd": 1},
)
