"""Validate the spec of a Job: its own fields (validateJobSpec), its pod failure policy and its success policy.

Source: k8s.io/kubernetes/pkg/apis/batch/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.gotypes.internal import internal
from phalanx.embedded.apiserver.registry.kinds.batch import indexes
from phalanx.embedded.apiserver.registry.kinds.checks import (
    Found,
    complain,
    formatted,
    label_selector,
    not_negative,
    selects,
)
from phalanx.embedded.apiserver.registry.kinds.pods import spec as pod_spec

Spec = Mapping[str, Any]

COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
MODES = ("NonIndexed", "Indexed")
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
STATUSES = ("False", "True", "Unknown")
MAX_PARALLELISM = 100_000
MANY_COMPLETIONS = 100_000
PARALLELISM_OF_MANY = 10_000
FAILED_INDEXES_OF_MANY = 10_000
MAX_RULES = 20


def job_spec(found: Found, spec: Spec) -> None:
    """Add the errors in the spec of a Job. The selector must have been generated before."""
    plain_spec(found, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        found.append(required("spec.selector"))
    else:
        before = len(found)
        label_selector(found, selector, "spec.selector")
        if len(found) > before:
            return
    template_labels = (spec["template"].get("metadata") or {}).get("labels")
    if selector is None or not selects(selector, template_labels or {}):
        text = "`selector` does not match template `labels`"
        found.append(invalid_value("spec.template.metadata.labels", template_labels, text))


def plain_spec(found: Found, spec: Spec, path: str) -> None:
    """Validate the spec of a Job, or of the template of a CronJob."""
    not_negative(found, spec, COUNTS, path)
    not_negative(found, spec, ("backoffLimitPerIndex", "maxFailedIndexes"), path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        complain(found, f"{path}.managedBy", manager, formats.domain_path(manager))
        if len(manager) > 63:
            found.append(too_long(f"{path}.managedBy", 63))
    _mode(found, spec, path)
    if (failure := spec.get("podFailurePolicy")) is not None:
        _failure_policy(found, failure, spec, f"{path}.podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        _success_policy(found, success, spec, f"{path}.successPolicy")
    _replacement(found, spec, f"{path}.podReplacementPolicy")
    pod_spec.template(found, spec["template"], f"{path}.template")
    _restart_policy(found, spec, f"{path}.template.spec.restartPolicy")


def _mode(found: Found, spec: Spec, path: str) -> None:
    mode = spec.get("completionMode")
    if mode is not None and mode not in MODES:
        found.append(not_supported(f"{path}.completionMode", mode, MODES))
    if mode == "Indexed":
        _indexed(found, spec, path)
    elif mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(key) is not None:
                found.append(invalid_value(f"{path}.{key}", spec[key], "requires indexed completion mode"))


def _indexed(found: Found, spec: Spec, path: str) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        found.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > MAX_PARALLELISM:
        text = f"must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed"
        found.append(invalid_value(f"{path}.parallelism", parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        text = "must be less than or equal to completions"
        found.append(invalid_value(f"{path}.maxFailedIndexes", failed, text))
    if failed is not None and failed > MAX_PARALLELISM:
        text = f"must be less than or equal to {MAX_PARALLELISM}"
        found.append(invalid_value(f"{path}.maxFailedIndexes", failed, text))
    if completions is not None and completions > MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        _many(found, parallelism, failed, path)


def _many(found: Found, parallelism: int | None, failed: int | None, path: str) -> None:
    rest = f"when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
    if failed is None:
        text = f"must be specified when completions is above {MANY_COMPLETIONS}"
        found.append(required(f"{path}.maxFailedIndexes", text))
    if parallelism is not None and parallelism > PARALLELISM_OF_MANY:
        text = f"must be less than or equal to {PARALLELISM_OF_MANY} {rest}"
        found.append(invalid_value(f"{path}.parallelism", parallelism, text))
    if failed is not None and failed > FAILED_INDEXES_OF_MANY:
        text = f"must be less than or equal to {FAILED_INDEXES_OF_MANY} {rest}"
        found.append(invalid_value(f"{path}.maxFailedIndexes", failed, text))


def _replacement(found: Found, spec: Spec, path: str) -> None:
    policy = spec.get("podReplacementPolicy")
    choices = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in choices:
        found.append(not_supported(path, policy, choices))


def _restart_policy(found: Found, spec: Spec, path: str) -> None:
    policy = (spec["template"].get("spec") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        found.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        found.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif policy != "Never" and spec.get("podFailurePolicy") is not None:
        text = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(invalid_value(path, policy, text))


# --- pod failure policy ----------------------------------------------------------------------------------------------


def _failure_policy(found: Found, policy: Spec, spec: Spec, path: str) -> None:
    rules = policy.get("rules") or ()
    if len(rules) > MAX_RULES:
        found.append(too_many(f"{path}.rules", len(rules), MAX_RULES))
    pod = spec["template"].get("spec") or {}
    names = {one.get("name") for key in ("containers", "initContainers") for one in pod.get(key) or ()}
    for index, rule in enumerate(rules):
        _failure_rule(found, rule, spec, names, f"{path}.rules[{index}]")


def _failure_rule(found: Found, rule: Spec, spec: Spec, names: set[str], path: str) -> None:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if not action:
        found.append(required(f"{path}.action", _valid(ACTIONS)))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            text = "requires the backoffLimitPerIndex to be set"
            found.append(invalid_value(f"{path}.action", action, text))
    elif action not in ACTIONS:
        found.append(not_supported(f"{path}.action", action, ACTIONS))
    if codes is not None:
        _exit_codes(found, codes, names, f"{path}.onExitCodes")
    if len(conditions) > MAX_RULES:
        found.append(too_many(f"{path}.onPodConditions", len(conditions), MAX_RULES))
    for number, pattern in enumerate(conditions):
        _condition(found, pattern, f"{path}.onPodConditions[{number}]")
    if codes is not None and conditions:
        found.append(bare_invalid(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    elif codes is None and not conditions:
        found.append(bare_invalid(path, "specifying one of OnExitCodes and OnPodConditions is required"))


def bare_invalid(field: str, text: str) -> Cause:
    """Return an error `Invalid value`. Its message does not show the value (field.OmitValueType)."""
    return Cause("FieldValueInvalid", f"Invalid value: {text}", field)


def _valid(choices: tuple[str, ...]) -> str:
    """Return the text "valid values: […]", with the choices as Go prints a list with `%q`."""
    return "valid values: [" + " ".join(f'"{one}"' for one in choices) + "]"


def _condition(found: Found, pattern: Spec, path: str) -> None:
    formatted(found, f"{path}.type", pattern.get("type", ""), formats.qualified_name)
    status = pattern.get("status", "")
    if not status:
        found.append(required(f"{path}.status", _valid(STATUSES)))
    elif status not in STATUSES:
        found.append(not_supported(f"{path}.status", status, STATUSES))


def _exit_codes(found: Found, given: Spec, names: set[str], path: str) -> None:
    operator, container = given.get("operator", ""), given.get("containerName")
    if not operator:
        found.append(required(f"{path}.operator", _valid(("In", "NotIn"))))
    elif operator not in ("In", "NotIn"):
        found.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        found.append(invalid_value(f"{path}.containerName", container, text))
    values = given.get("values") or []
    if not values:
        found.append(invalid_value(f"{path}.values", given.get("values"), "at least one value is required"))
    elif len(values) > 255:
        found.append(too_many(f"{path}.values", len(values), 255))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(invalid_value(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            found.append(duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        found.append(invalid_value(f"{path}.values", values, "must be ordered"))


# --- success policy --------------------------------------------------------------------------------------------------


def _success_policy(found: Found, policy: Spec, spec: Spec, path: str) -> None:
    rules = policy.get("rules") or ()
    if spec.get("completionMode") != "Indexed":
        shown = [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for rule in rules
        ]
        held = shown if policy.get("rules") is not None else None
        found.append(invalid_value(path, {"Rules": held}, "requires indexed completion mode"))
        return
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        found.append(required(f"{path}.rules", text))
    if len(rules) > MAX_RULES:
        found.append(too_many(f"{path}.rules", len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        _success_rule(found, rule, spec.get("completions") or 0, f"{path}.rules[{index}]")


def _success_rule(found: Found, rule: Spec, completions: int, path: str) -> None:
    listed, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if listed is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        found.append(required(path, text))
    total = 0
    if listed is not None:
        if len(listed) > 65536:
            found.append(too_long(f"{path}.succeededIndexes", 65536))
        total, wrong = indexes.counted(listed, completions)
        if wrong:
            text = f"error parsing succeededIndexes: {wrong}"
            found.append(invalid_value(f"{path}.succeededIndexes", listed, text))
    if count is None:
        return
    not_negative(found, rule, ("succeededCount",), path)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        found.append(invalid_value(f"{path}.succeededCount", count, text))
    if listed is not None and count > total:
        rest = f"{total} (the number of indexes in the specified succeededIndexes field)"
        found.append(invalid_value(f"{path}.succeededCount", count, f"must be less than or equal to {rest}"))


# --- the changes that an update may make -----------------------------------------------------------------------------

IMMUTABLE = {
    "completionMode": "*s",
    "podFailurePolicy": "*batch.PodFailurePolicy",
    "backoffLimitPerIndex": "*i",
    "managedBy": "*s",
    "successPolicy": "*batch.SuccessPolicy",
}
# The fields in the template of a suspended Job that a scheduler may set (KEP-2926, KEP-5440).
DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


class TemplateChange(Enum):
    """The part of a Job's template that an update may change."""

    NOTHING = "nothing"
    DIRECTIVES = "directives"
    DIRECTIVES_AND_RESOURCES = "directives and resources"


def spec_update(found: Found, spec: Spec, old: Spec, *, template: TemplateChange) -> None:
    """Add an error for each forbidden change from `old` to `spec`. `template`: the part of the template that may
    change."""
    _completions(found, spec, old)
    _immutable(found, "selector", spec, old, "*meta.LabelSelector")
    if template is not TemplateChange.NOTHING:
        sized = template is TemplateChange.DIRECTIVES_AND_RESOURCES
        if _frozen(spec["template"], sized=sized) != _frozen(old["template"], sized=sized):
            shown = internal(spec["template"].get("spec"), "core.PodSpec")
            found.append(invalid_value("spec.template.spec", shown, "field is immutable"))
    elif spec["template"] != old["template"]:
        shown = internal(spec["template"], "core.PodTemplateSpec")
        found.append(invalid_value("spec.template", shown, "field is immutable"))
    for key, kind in IMMUTABLE.items():
        _immutable(found, key, spec, old, kind)


def _immutable(found: Found, key: str, spec: Spec, old: Spec, kind: str) -> None:
    if spec.get(key) != old.get(key):
        found.append(invalid_value(f"spec.{key}", internal(spec.get(key), kind), "field is immutable"))


def _completions(found: Found, spec: Spec, old: Spec) -> None:
    """Add an error if `completions` has changed. Only elastic Indexed Jobs may change it: together with `parallelism`,
    and to the same number."""
    now, before = spec.get("completions"), old.get("completions")
    if now == before:
        return
    if spec.get("completionMode") != "Indexed":
        found.append(invalid_value("spec.completions", now, "field is immutable"))
    elif now is not None and now != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        found.append(invalid_value("spec.completions", now, text))


def _frozen(template: Spec, *, sized: bool) -> dict[str, object]:
    """Return the part of a suspended Job's template that must not change. `sized`: True if the resources of containers
    may change."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in DIRECTIVES}
    affinity = {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    for key in ("containers", "initContainers"):
        if sized and key in spec:
            spec[key] = [{k: v for k, v in one.items() if k != "resources"} for one in spec[key] or ()]
    return spec | {"affinity": affinity}


def generated_selector(found: Found, job: Spec) -> None:
    """Check that a Job without manualSelector has the labels and the selector that the server generates."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    wanted = generated_labels(meta.get("uid", ""), meta.get("name", ""))
    given = (spec["template"].get("metadata") or {}).get("labels") or {}
    path = "spec.template.metadata.labels"
    for key in ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        if key not in given:
            found.append(required(f"{path}[{key}]", f"must be '{wanted[key]}'"))
        elif given[key] != wanted[key]:
            shown = {name: given[name] for name in sorted(given)}
            found.append(invalid_value(f"{path}[{key}]", shown, f"must be '{wanted[key]}'"))
    if not selects(spec["selector"], wanted):
        found.append(
            invalid_value(
                "spec.selector", internal(spec["selector"], "meta.LabelSelector"), "`selector` not auto-generated"
            )
        )


def last_host_name(found: Found, job: Spec) -> None:
    """Check that the host name of the last pod of an Indexed Job is a DNS label. The host name consists of the Job's
    name and the pod's index, so the last pod has the longest one."""
    completions, name = job["spec"].get("completions") or 0, job["metadata"].get("name", "")
    if job["spec"].get("completionMode") != "Indexed" or completions < 1:
        return
    host = f"{name}-{completions - 1}"
    if formats.dns_label(host):
        text = f"will not able to create pod with invalid DNS label: {host}"
        found.append(invalid_value("metadata.name", name, text))


def generated_labels(uid: str, name: str) -> dict[str, str]:
    """Return the labels that every pod of a Job has: the uid and the name of the Job, each under the old and the new
    key."""
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def no_template_selector(found: Found, spec: Spec, path: str) -> None:
    """Add an error if the Job template of a CronJob has a selector, because the server always generates the
    selector."""
    if spec.get("selector") is not None:
        found.append(
            invalid_value(
                f"{path}.selector",
                internal(spec["selector"], "meta.LabelSelector"),
                "`selector` will be auto-generated",
            )
        )
    if spec.get("manualSelector"):
        found.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
