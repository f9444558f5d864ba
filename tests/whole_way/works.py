"""The jobs that users of every dialect submit, each with its objects and the maker of its pods.

A `Work` is one job of a user. A maker creates its bare pods and replaces missing or failed pods under the same names,
as Volcano's and other controllers do. Pods of a batch Job are created by the Job controller.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.client.kind import JOBS, NAMESPACES, PODS, Kind
from phalanx.dialects.job_kinds.appwrapper import kinds as app_wrapper
from phalanx.dialects.job_kinds.appwrapper.pod_sets import component_object
from phalanx.dialects.kai import kinds as kai
from phalanx.dialects.kube_scheduler.koordinator import kinds as koordinator
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds as scheduler_plugins
from phalanx.dialects.kueue import kinds as kueue
from phalanx.dialects.volcano import kinds as volcano
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import ADMITTED
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube import double, test_kai, test_koordinator, test_scheduler_plugins, test_volcano, test_yunikorn
from tests.kube.double import Api, Object
from tests.kube.stage import Stage

DIALECTS = frozenset(
    {
        *(kueue.NAME, volcano.SCHEDULER_NAME, "yunikorn", kai.NAME, koordinator.NAME),
        *(scheduler_plugins.NAME, app_wrapper.NAME),
    }
)
LONG, EACH = 4, 2  # the most pods of a job, the most cpu of a pod
ENDS = {"Complete": "Succeeded", "Failed": "Failed"}


@dataclass
class Work:
    """`groups`: objects that group the pods, as a PodGroup does. `jobs`: batch Jobs. `pods`: bare pods, by name.
    `anew`: the maker replaces lost and failed pods. `wanted`: the job was submitted and not deleted since. `done`: pods
    that have succeeded. `made`: pods that were created at least once."""

    name: str
    form: str
    groups: list[tuple[Kind, Object]] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    pods: dict[str, Object] = field(default_factory=dict)
    anew: bool = True
    wanted: bool = True
    done: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)

    def keep(self, api: Api) -> None:
        """Create and replace pods, as the maker does in a turn."""
        for kind, obj in self.groups:
            if kind is app_wrapper.APP_WRAPPERS:
                _unwrap(api, double.key_of(obj))
        if not self.wanted:
            return
        for name, pod in self.pods.items():
            there = api.objects[PODS].get(f"default/{name}")
            if there is not None and there["status"]["phase"] == "Succeeded":
                self.done.add(name)
            elif there is not None and there["status"]["phase"] == "Failed" and self.anew:
                api.drop(PODS, f"default/{name}")
            elif there is None and name not in self.done and (self.anew or name not in self.made):
                self.made.add(name)
                api.put(PODS, pod)

    def create(self, api: Api) -> None:
        """Submit the job, or submit it again under the same name."""
        self.wanted = True
        self.done.clear()
        self.made.clear()
        for kind, obj in self.groups:
            if double.key_of(obj) not in api.objects[kind]:
                api.put(kind, obj)
        for job in self.jobs:
            if double.key_of(job) not in api.objects[JOBS]:
                api.put(JOBS, job)

    def delete(self, api: Api) -> None:
        """Delete all objects of the job. A pod on a node terminates in a later turn."""
        self.wanted = False
        for job in self.jobs:
            if double.key_of(job) in api.objects[JOBS]:
                api.drop(JOBS, double.key_of(job))
        for name in self.pods:
            end(api, name)
        for kind, obj in self.groups:
            if double.key_of(obj) in api.objects[kind]:
                api.drop(kind, double.key_of(obj))

    def is_on(self, api: Api) -> bool:
        return self.wanted and (not self.jobs or all(double.key_of(job) in api.objects[JOBS] for job in self.jobs))


def _unwrap(api: Api, key: str) -> None:
    """Act as the AppWrapper controller: create the wrapped Job when the AppWrapper is resumed, and delete the Job when
    the AppWrapper is suspended or deleted."""
    wrapper, job = api.objects[app_wrapper.APP_WRAPPERS].get(key), api.objects[JOBS].get(key)
    phase = ((wrapper or {}).get("status") or {}).get("phase")
    if wrapper is None or wrapper["spec"].get("suspend"):
        if job is not None:
            api.drop(JOBS, key)
    elif job is None and phase not in ENDS.values():
        made = component_object(wrapper, 0)
        kind, meta = app_wrapper.APP_WRAPPERS, wrapper["metadata"]
        owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": meta["name"], "uid": meta["uid"]}
        owners = [{**owner, "controller": True}]
        made["metadata"] = {**made["metadata"], "namespace": "default", "ownerReferences": owners}
        api.put(JOBS, {**made, "status": {}})
    elif job is not None and phase is None:
        ended = [one["type"] for one in job["status"].get("conditions", ()) if one["type"] in ENDS]
        if ended:
            api.put(app_wrapper.APP_WRAPPERS, {**wrapper, "status": {"phase": ENDS[ended[0]]}})


def end(api: Api, name: str) -> None:
    """Delete a pod. A pod on a node terminates later; any other pod disappears at once."""
    pod = api.objects[PODS].get(f"default/{name}")
    if pod is None:
        return
    if pod["spec"].get("nodeName") and pod["status"]["phase"] in {"Pending", "Running"}:
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
            api.put(PODS, pod)
    else:
        api.drop(PODS, f"default/{name}")


# --- queues -----------------------------------------------------------------------------------------------------------


def furnish(stage: Stage, dice: random.Random, cpu: int) -> None:
    """Create two queues for each dialect. The quota of each queue is a part of the nodes' amounts."""

    def part() -> int:
        return dice.randint(1, max(1, cpu // 2))

    api = stage.api
    api.put(NAMESPACES, named("default"))
    reclaims = {"reclaim": "any", "within": dice.choice(["never", "lower", "lower"])}
    for name in ("default", "second"):
        quotas = [{"guaranteed": {"cpu": str(part())}}] if dice.random() < 0.8 else []
        api.put(QUEUES, {"metadata": {"name": name}, "spec": {"gang": True, "quotas": quotas, "preemption": reclaims}})
    _kueue(api, dice, part)
    for name in ("vq", "vq2"):
        said = {"deserved": {"cpu": part()}} if dice.random() < 0.8 else {}
        api.put(volcano.QUEUES, {"metadata": {"name": name}, "spec": said})
    for name in ("kq", "kq2"):
        test_kai.queue(stage, name, cpu={"quota": 1000 * part(), "limit": -1, "overQuotaWeight": 1})
    leaves = ", ".join(
        f"{{name: {name}, resources: {{guaranteed: {{vcore: {part()}}}}}, properties: {{preemption.delay: 5s}}}}"
        for name in ("a", "b")
    )
    config = f"partitions: [{{queues: [{{name: root, submitacl: '*', queues: [{leaves}]}}]}}]"
    meta = {"name": "yunikorn-configs", "namespace": "yunikorn"}
    api.put(CONFIGURATIONS, {"metadata": meta, "data": {"queues.yaml": config}})
    for name in ("eq", "eq2"):
        test_koordinator.quota(stage, name, least=part(), most=cpu)


def _kueue(api: Api, dice: random.Random, part: Callable[[], int]) -> None:
    api.put(kueue.RESOURCE_FLAVORS, named("f", spec={}))
    for name in ("x", "y"):
        said: Any = {"nominalQuota": part()}
        if dice.random() < 0.4:
            said["lendingLimit"] = max(0, said["nominalQuota"] - 1)
        preemption = {
            "reclaimWithinCohort": dice.choice(["Never", "Any", "LowerPriority"]),
            "withinClusterQueue": dice.choice(["Never", "LowerPriority"]),
        }
        quotas = group(f={"cpu": said})
        api.put(kueue.CLUSTER_QUEUES, cluster_queue(name, quotas, cohortName="c", preemption=preemption))
        api.put(kueue.LOCAL_QUEUES, local_queue(f"l{name}", name))


# --- works ------------------------------------------------------------------------------------------------------------


def plain_job(name: str, dice: random.Random) -> Work:
    pods = dice.choice([*range(1, LONG + 1), 2 * LONG])
    said = {"min_available": str(dice.randint(1, min(pods, LONG)))} if dice.random() < 0.6 or pods > LONG else {}
    if dice.random() < 0.3:
        said["after"] = f"w{dice.randint(0, 9)}:{dice.choice(['ok', 'any', 'start', 'not-ok'])}"
    job = double.job(name, pods, str(dice.randint(1, EACH)), queue=dice.choice(["default", "second"]), **said)
    job["spec"]["template"]["spec"]["priority"] = dice.choice([0, 0, 10, 10])
    return Work(name, "plain job", jobs=[job])


def kueue_job(name: str, dice: random.Random) -> Work:
    job = double.job(name, dice.randint(1, LONG), str(dice.randint(1, EACH)))
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": dice.choice(["lx", "ly"])}
    if dice.random() < 0.3:
        job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    job["spec"]["template"]["spec"]["priority"] = dice.choice([0, 0, 10, 10])
    return Work(name, "kueue job", jobs=[job])


def wrapped_job(name: str, dice: random.Random) -> Work:
    job = double.job(name, dice.randint(1, LONG), str(dice.randint(1, EACH)))
    del job["metadata"]["labels"], job["status"], job["spec"]["suspend"]
    template = {"apiVersion": "batch/v1", "kind": "Job", **job}
    labels = {"phalanx.dev/queue": dice.choice(["default", "second"])}
    meta = {"name": name, "namespace": "default", "labels": labels}
    wrapper = {"metadata": meta, "spec": {"suspend": True, "components": [{"template": template}]}}
    return Work(name, "wrapped job", groups=[(app_wrapper.APP_WRAPPERS, wrapper)])


def plain_pod(name: str, dice: random.Random) -> Work:
    return _of("plain pod", name, [double.pod(name, str(dice.randint(1, EACH)), queue="default")], dice, anew=False)


def plain_gang(name: str, dice: random.Random) -> Work:
    pods, cpu = dice.randint(1, LONG), str(dice.randint(1, EACH))
    said = {"job": name, "queue": "second", "min_available": str(dice.randint(1, pods))}
    return _of("plain gang", name, [double.pod(f"{name}-{n}", cpu, **said) for n in range(pods)], dice)


def kueue_group(name: str, dice: random.Random) -> Work:
    pods, prefix, found = dice.randint(1, LONG), "kueue.x-k8s.io", []
    for number in range(pods):
        one = double.pod(f"{name}-{number}", "1")
        one["metadata"]["labels"] = {f"{prefix}/queue-name": "lx", f"{prefix}/pod-group-name": name}
        one["metadata"]["annotations"] = {f"{prefix}/pod-group-total-count": str(pods)}
        found.append(one)
    return _of("kueue group", name, found, dice)


def volcano_gang(name: str, dice: random.Random) -> Work:
    pods, cpu = dice.choice([*range(1, LONG + 1), 2 * LONG]), dice.randint(1, EACH)
    least = dice.randint(1, min(pods, LONG))
    spec: Object = {"minMember": least, "queue": dice.choice(["vq", "vq2"])}
    if dice.random() < 0.8:
        spec["minResources"] = {"cpu": least * cpu}
    meta = {"name": name, "namespace": "default"}
    found = [test_volcano.member(f"{name}-{n}", name, str(cpu)) for n in range(pods)]
    return _of("volcano gang", name, found, dice, [(volcano.POD_GROUPS, {"metadata": meta, "spec": spec})])


def kai_gang(name: str, dice: random.Random) -> Work:
    pods, queue = dice.choice([*range(1, LONG + 1), 2 * LONG]), dice.choice(["kq", "kq2"])
    spec = {"queue": queue, "minMember": dice.randint(1, min(pods, LONG))}
    meta = {"name": name, "namespace": "default"}
    cpu = str(dice.randint(1, EACH))
    found = [test_kai.pod(f"{name}-{n}", cpu, group=name, queue=queue) for n in range(pods)]
    return _of("kai gang", name, found, dice, [(kai.POD_GROUPS, {"metadata": meta, "spec": spec})])


def koordinator_gang(name: str, dice: random.Random) -> Work:
    pods, cpu, of = dice.randint(1, LONG), str(dice.randint(1, EACH)), dice.choice(["eq", "eq2"])
    meta = {"name": name, "namespace": "default"}
    found = [test_koordinator.in_quota(f"{name}-{n}", of, cpu) for n in range(pods)]
    for one in found:
        one["metadata"]["labels"][test_koordinator.LABEL] = name
    least = {"minMember": dice.randint(1, pods)}
    return _of("koordinator gang", name, found, dice, [(koordinator.POD_GROUPS, {"metadata": meta, "spec": least})])


def coscheduling_gang(name: str, dice: random.Random) -> Work:
    pods = dice.randint(1, LONG)
    meta = {"name": name, "namespace": "default"}
    found = [test_scheduler_plugins.pod(f"{name}-{n}", name) for n in range(pods)]
    least = {"minMember": dice.randint(1, pods)}
    groups = [(scheduler_plugins.POD_GROUPS, {"metadata": meta, "spec": least})]
    return _of("coscheduling gang", name, found, dice, groups)


def yunikorn_gang(name: str, dice: random.Random) -> Work:
    pods, queue = dice.randint(1, LONG), dice.choice(["root.a", "root.b"])
    asked = json.dumps([{"name": "work", "minMember": pods, "minResource": {"cpu": "1"}}])
    said = {"task_group_name": "work"}
    first = test_yunikorn.pod(f"{name}-0", queue, app=name, task_groups=asked, **said)
    others = [test_yunikorn.pod(f"{name}-{n}", queue, app=name, **said) for n in range(1, pods)]
    return _of("yunikorn gang", name, [first, *others], dice)


def yunikorn_application(name: str, dice: random.Random) -> Work:
    queue, cpu = dice.choice(["root.a", "root.b"]), str(dice.randint(1, EACH))
    pods = [test_yunikorn.pod(f"{name}-{n}", queue, cpu, app=name) for n in range(dice.randint(1, LONG))]
    return _of("yunikorn application", name, pods, dice)


def _of(
    form: str,
    name: str,
    pods: list[Object],
    dice: random.Random,
    groups: list[tuple[Kind, Object]] | None = None,
    *,
    anew: bool | None = None,
) -> Work:
    priority = dice.choice([0, 0, 10, 10])
    for one in pods:
        one["spec"]["priority"] = priority
    kept = dice.random() < 0.8 if anew is None else anew
    return Work(name, form, groups or [], pods={one["metadata"]["name"]: one for one in pods}, anew=kept)


FORMS: Mapping[str, Callable[[str, random.Random], Work]] = {
    form.__name__: form
    for form in (
        plain_job,
        kueue_job,
        wrapped_job,
        plain_pod,
        plain_gang,
        kueue_group,
        volcano_gang,
        kai_gang,
        koordinator_gang,
        coscheduling_gang,
        yunikorn_gang,
        yunikorn_application,
    )
}


def suspend(api: Api, job: Object) -> None:
    """Suspend a running Job, as its user would."""
    there = api.objects[JOBS].get(double.key_of(job))
    if there is not None:
        api.put(JOBS, {**there, "spec": {**there["spec"], "suspend": True}})


def resume(api: Api, job: Object) -> None:
    """Resume a suspended Job: remove the annotation of its last start, so that the Job is queued again."""
    there = api.objects[JOBS].get(double.key_of(job))
    if there is not None and there["spec"].get("suspend"):
        notes = {key: text for key, text in (there["metadata"].get("annotations") or {}).items() if key != ADMITTED}
        api.put(JOBS, {**there, "metadata": {**there["metadata"], "annotations": notes}})
