"""The cells of Jobs, Deployments and other kinds that own pods: their progress, and their containers."""

from __future__ import annotations

from phalanx.embedded.apiserver.transport.tables.printer import (
    Object,
    age,
    condition,
    containers_text,
    human,
    labels_text,
    seconds_of,
    selector_text,
    since,
)


def job_cells(job: Object, now_s: float) -> list[object]:
    spec, status = job["spec"], job.get("status", {})
    names, images = containers_text(spec.get("template"))
    selector = selector_text(spec.get("selector"))
    name = job["metadata"]["name"]
    duration = _job_duration(status, now_s)
    return [name, _job_state(job), _completions(spec, status), duration, age(job, now_s), names, images, selector]


def _job_state(job: Object) -> str:
    if condition(job, "Complete"):
        return "Complete"
    if condition(job, "Failed"):
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if job["spec"].get("suspend") and not job.get("status", {}).get("startTime"):
        return "Suspended"  # the Job controller writes the condition Suspended a moment after the creation of the Job
    states = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((state for state in states if condition(job, state)), "Running")


def _completions(spec: Object, status: Object) -> str:
    succeeded, wanted = status.get("succeeded") or 0, spec.get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Object, now_s: float) -> str:
    if not status.get("startTime"):
        return ""
    end_s = seconds_of(status["completionTime"]) if status.get("completionTime") else now_s
    return human(end_s - seconds_of(status["startTime"]))


def cron_job_cells(job: Object, now_s: float) -> list[object]:
    spec, status, inner = job["spec"], job.get("status", {}), job["spec"].get("jobTemplate", {}).get("spec", {})
    last = since(status["lastScheduleTime"], now_s) if status.get("lastScheduleTime") else "<none>"
    suspended = {None: "<unset>", True: "True", False: "False"}[spec.get("suspend")]
    return [
        job["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        suspended,
        len(status.get("active") or ()),
        last,
        age(job, now_s),
        *containers_text(inner.get("template")),
        selector_text(inner.get("selector")),
    ]


def deployment_cells(deployment: Object, now_s: float) -> list[object]:
    spec, status = deployment["spec"], deployment.get("status", {})
    return [
        deployment["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(deployment, now_s),
        *containers_text(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def daemon_set_cells(daemons: Object, now_s: float) -> list[object]:
    spec, status = daemons["spec"], daemons.get("status", {})
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    pod = (spec.get("template") or {}).get("spec") or {}
    return [
        daemons["metadata"]["name"],
        *(status.get(name, 0) for name in (*names, "numberAvailable")),
        labels_text(pod.get("nodeSelector")),
        age(daemons, now_s),
        *containers_text(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def replica_set_cells(replicas: Object, now_s: float) -> list[object]:
    spec, status = replicas["spec"], replicas.get("status", {})
    counts = (spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0))
    shown = (*containers_text(spec.get("template")), selector_text(spec.get("selector")))
    return [replicas["metadata"]["name"], *counts, age(replicas, now_s), *shown]


def replication_controller_cells(replicas: Object, now_s: float) -> list[object]:
    selector = labels_text(replicas["spec"].get("selector"))
    return [*replica_set_cells({**replicas, "spec": {**replicas["spec"], "selector": None}}, now_s)[:-1], selector]


def stateful_set_cells(replicas: Object, now_s: float) -> list[object]:
    spec, status = replicas["spec"], replicas.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [replicas["metadata"]["name"], ready, age(replicas, now_s), *containers_text(spec.get("template"))]


def pod_template_cells(template: Object, now_s: float) -> list[object]:
    inner = template.get("template", {})
    labels = labels_text(inner.get("metadata", {}).get("labels"))
    return [template["metadata"]["name"], *containers_text(inner), labels]
