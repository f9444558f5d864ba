"""Jobs and CronJobs: their defaults, the generated selector of a Job, and the changes that are allowed while a Job is
suspended.

Source: SetDefaults_Job of pkg/apis/batch/v1 and the strategies of pkg/registry/batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from zoneinfo import ZoneInfo

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value, required
from phalanx.embedded.apiserver.registry.kinds.batch import spec as job_spec
from phalanx.embedded.apiserver.registry.kinds.batch import status as job_status
from phalanx.embedded.apiserver.registry.kinds.batch.spec import TemplateChange
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, not_negative
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.pods import defaults
from phalanx.embedded.apiserver.registry.kinds.pods import warnings as pod_warnings

MAX_INT32 = 2**31 - 1
HOST_NAMES = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior"
CRON_FIELD = r"[\d*/,\-?A-Za-z]+"
CRON_NAME = "@(yearly|annually|monthly|weekly|daily|midnight|hourly)"
CRON_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
CRON = re.compile(rf"({CRON_NAME}|@every \S+|{CRON_FIELD}( +{CRON_FIELD}){{4}})")


class JobStrategy(SpecAndStatus):
    """The strategy of `jobs.batch`. `version`: a Kubernetes release, one of `EMULATED_VERSIONS`. Its rules decide how
    the template of a suspended Job may change."""

    counts = True
    default_propagation = "orphan"
    delete_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    )

    def __init__(self, version: str = "1.36") -> None:
        self._template_change = EMULATED_VERSIONS[version]

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MAX_INT32)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        policy = spec.get("podFailurePolicy")
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
        for rule in (policy or {}).get("rules") or ():
            for pattern in rule.get("onPodConditions") or ():
                pattern.setdefault("status", "True")
        defaults.pod_spec(spec["template"]["spec"])
        _copy_labels(obj)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
        _copy_labels(obj)

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        job_spec.generated_selector(found, obj)
        job_spec.job_spec(found, obj["spec"])
        if not obj["metadata"].get("resourceVersion"):
            job_spec.last_host_name(found, obj)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        job_spec.job_spec(found, obj["spec"])  # kube-apiserver, too, reports these errors twice on an update
        job_spec.spec_update(found, obj["spec"], old["spec"], template=self._template_change(old))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        job_status.status_update(found, obj, old)
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        spec = obj["spec"]
        template = pod_warnings.of_pod(spec["template"], "spec.template")
        if old is not None:
            return [] if spec == old["spec"] else list(template)
        many = (spec.get("completions") or 0) > 100_000 and (spec.get("parallelism") or 0) > 10_000
        indexed = spec.get("completionMode") == "Indexed" and many
        return [*pod_warnings.of_name(obj, HOST_NAMES), *([MANY_INDEXES] if indexed else ()), *template]

    def selectable_names(self) -> Iterable[str]:
        return ("status.successful",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}


def _copy_labels(job: Object) -> None:
    """Give a Job without labels the labels of its pods."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _generate_selector(job: Object) -> None:
    """Generate the selector of a Job and its labels. Fields that the user has set are left unchanged, and validation
    checks them."""
    meta, spec = job["metadata"], job["spec"]
    shared = meta.get("labels") == spec["template"]["metadata"].get("labels")
    made = job_spec.generated_labels(meta.get("uid", ""), meta.get("name", ""))
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in made.items():
        labels.setdefault(key, value)
    selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault("batch.kubernetes.io/controller-uid", meta.get("uid", ""))
    if shared:
        meta["labels"] = dict(labels)


def _before_1_36(job: Object) -> TemplateChange:
    """Return the part of the template that an update may change, by the rule before 1.36: the scheduling directives, if
    the Job is suspended and has never run (KEP-2926)."""
    fresh = job["spec"].get("suspend") and not (job.get("status") or {}).get("startTime")
    return TemplateChange.DIRECTIVES if fresh else TemplateChange.NOTHING


def _of_1_36_0(job: Object) -> TemplateChange:
    """Return the part of the template that an update may change, by the rule of 1.36.0: the directives and resources,
    if the Job is suspended, has the condition Suspended and has no active pods (KEP-5440)."""
    seen = job["spec"].get("suspend") and "Suspended" in job_status.true_conditions(job)
    return TemplateChange.DIRECTIVES_AND_RESOURCES if seen and _has_no_pods(job) else TemplateChange.NOTHING


def _of_1_36(job: Object) -> TemplateChange:
    """Return the part of the template that an update may change, by the rule of later releases of 1.36. The directives
    and resources may change by the rule of 1.36.0, and also if the Job is suspended, has never run and has no pods
    (shouldAllowMutablePodTemplate)."""
    fresh = job["spec"].get("suspend") and not (job.get("status") or {}).get("startTime")
    return TemplateChange.DIRECTIVES_AND_RESOURCES if fresh and _has_no_pods(job) else _of_1_36_0(job)


def _has_no_pods(job: Object) -> bool:
    return not (job.get("status") or {}).get("active")


EMULATED_VERSIONS: Mapping[str, Callable[[Object], TemplateChange]] = {
    "1.35": _before_1_36,
    "1.36.0": _of_1_36_0,
    "1.36": _of_1_36,
}
MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


class CronJobStrategy(SpecAndStatus):
    """The strategy of `cronjobs.batch`."""

    counts = True

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        path = "spec.jobTemplate.spec.template"
        template = pod_warnings.of_pod(obj["spec"]["jobTemplate"]["spec"]["template"], path)
        if old is not None:
            return [] if obj["spec"] == old["spec"] else list(template)
        return [*pod_warnings.of_name(obj, HOST_NAMES), *template]

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        defaults.pod_spec(spec["jobTemplate"]["spec"]["template"]["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        cron_schedule(found, spec.get("schedule", ""))
        not_negative(found, spec, ("startingDeadlineSeconds",), "spec")
        time_zone(found, spec.get("timeZone"))
        chosen(found, "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
        template = spec["jobTemplate"]["spec"]
        job_spec.plain_spec(found, template, "spec.jobTemplate.spec")
        job_spec.no_template_selector(found, template, "spec.jobTemplate.spec")
        not_negative(found, spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
        name = obj["metadata"].get("name", "")
        if len(name) > 52 and not obj["metadata"].get("resourceVersion"):
            found.append(invalid_value("metadata.name", name, "must be no more than 52 characters"))
        return found


def cron_schedule(found: Found, schedule: str) -> None:
    """Check the schedule of a CronJob: five fields, or a name (such as `@daily`)."""
    if not schedule:
        found.append(required("spec.schedule"))
    elif "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.append(invalid_value("spec.schedule", schedule, text))
    elif not CRON.fullmatch(schedule):
        parts = schedule.split()
        text = f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
        found.append(invalid_value("spec.schedule", schedule, text))
    elif not schedule.startswith("@") and (text := cron_error(schedule)):
        found.append(invalid_value("spec.schedule", schedule, text))


def cron_error(schedule: str) -> str:
    """Return the error in the numbers of the five fields, with the message of robfig/cron; "" if there is none."""
    for text, (least, most) in zip(schedule.split(), CRON_BOUNDS, strict=True):
        for part in text.split(","):
            span, _, step = part.partition("/")
            if step == "0":
                return f"step of range should be a positive number: {part}"
            numbers = [int(one) for one in span.split("-") if one.isdigit()]
            if len(numbers) != len(span.split("-")):
                continue  # the value is the name of a month or of a weekday, or it stands for all numbers
            first, last = numbers[0], numbers[-1] if len(numbers) > 1 or not step else most
            if first < least:
                return f"beginning of range ({first}) below minimum ({least}): {part}"
            if last > most:
                return f"end of range ({last}) above maximum ({most}): {part}"
            if first > last:
                return f"beginning of range ({first}) beyond end of range ({last}): {part}"
    return ""


def time_zone(found: Found, zone: str | None) -> None:
    """Check the name of a time zone. `zone`: None if the field is absent."""
    if zone is None:
        return
    if not zone:
        found.append(invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
        return
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        found.append(invalid_value("spec.timeZone", zone, f"unknown time zone {zone}"))
