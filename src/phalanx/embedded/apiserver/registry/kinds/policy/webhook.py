"""The strategy of webhook configurations: their defaults and their validation.

Source: k8s.io/kubernetes/pkg/apis/admissionregistration (v1 defaults, validation). The server would never call a
webhook for the group events.k8s.io, or a webhook that accepts no reviews of version v1. It refuses such configurations,
instead of storing and ignoring them.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from phalanx.embedded.apimachinery.expressions.cel import ExpressionError, compiled
from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy

_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
}
_SCOPES = ("*", "Cluster", "Namespaced")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


class WebhookStrategy(GenerationStrategy):
    allow_unconditional_update = False
    spec_fields = ("webhooks",)

    def __init__(self, *, mutates: bool) -> None:
        super().__init__()
        self._choices = {**_CHOICES, **({"reinvocationPolicy": ("IfNeeded", "Never")} if mutates else {})}
        self._mutates = mutates

    def default(self, obj: Object) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self._mutates:
                hook.setdefault("reinvocationPolicy", "Never")
            if service := (hook.get("clientConfig") or {}).get("service"):
                service.setdefault("port", 443)
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")

    def validate(self, obj: Object) -> list[Cause]:
        causes, seen = list[Cause](), set[str]()
        for number, hook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{number}]", hook.get("name") or ""
            causes += _hook_causes(hook, path, self._choices)
            if name in seen:
                causes.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return causes


def _hook_causes(hook: Object, path: str, known: Mapping[str, tuple[str, ...]]) -> Iterator[Cause]:
    name, versions = hook.get("name") or "", hook.get("admissionReviewVersions") or ()
    if not name:
        yield required(f"{path}.name")
    elif problems := formats.dns_subdomain(name):
        for problem in problems:
            yield invalid_value(f"{path}.name", name, problem)
    elif name.count(".") < 2:
        yield invalid_value(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
    for field, choices in known.items():
        if hook.get(field) is None:
            yield required(f"{path}.{field}", f"must specify one of {', '.join(choices)}")
        elif hook[field] not in choices:
            yield not_supported(f"{path}.{field}", hook[field], choices)
    if not 1 <= hook.get("timeoutSeconds", 0) <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", hook.get("timeoutSeconds"), why)
    yield from _client_causes(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    if not versions:
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    for number, version in enumerate(versions):
        for problem in formats.dns_1035_label(version):
            yield invalid_value(f"{path}.admissionReviewVersions[{number}]", version, problem)
        if version in versions[:number]:
            yield invalid_value(f"{path}.admissionReviewVersions[{number}]", version, "duplicate version")
    if versions and not {"v1", "v1beta1"} & set(versions):
        why = "must include at least one of v1, v1beta1"
        yield invalid_value(f"{path}.admissionReviewVersions", list(versions), why)
    elif versions and "v1" not in versions:
        why = "this server sends reviews only in v1; write v1"
        yield invalid_value(f"{path}.admissionReviewVersions", list(versions), why)
    for number, rule in enumerate(hook.get("rules") or ()):
        yield from rule_causes(rule, f"{path}.rules[{number}]")
        yield from _unserved_causes(rule, f"{path}.rules[{number}]")
    for number, condition in enumerate(hook.get("matchConditions") or ()):
        yield from _condition_causes(condition, f"{path}.matchConditions[{number}]")


def rule_causes(rule: Object, path: str) -> Iterator[Cause]:
    """Yield the errors of a rule of a webhook or of an admission policy."""
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    for field, others in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        if len(values := rule.get(field) or ()) > 1 and "*" in values:
            yield invalid_value(f"{path}.{field}", values, f"if '*' is present, must not specify other {others}")
    for number, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{number}]", operation, _OPERATIONS)
    for number, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield required(f"{path}.apiVersions[{number}]")
    yield from _resource_causes(rule.get("resources") or (), f"{path}.resources")
    if (scope := rule.get("scope")) is not None and scope not in _SCOPES:
        yield not_supported(f"{path}.scope", scope, _SCOPES)


def _resource_causes(given: Sequence[str], path: str) -> Iterator[Cause]:
    """Yield the errors of resources in the forms `x`, `x/*`, `*/x`, `*` and `*/*`. No resource may be covered by
    another one in the list."""
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for number, text in enumerate(given):
        resource, slash, sub = text.partition("/")
        if not text:
            yield required(f"{path}[{number}]")
        if not slash:
            plain = text != "*" if text else plain
            continue
        if resource in whole:
            yield invalid_value(f"{path}[{number}]", text, f"if '{resource}/*' is present, must not specify {text}")
        if sub in everywhere:
            yield invalid_value(f"{path}[{number}]", text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(given) > 1 and "*/*" in given:
        yield invalid_value(path, given, "if '*/*' is present, must not specify other resources")
    if "*" in given and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, given, why)


def _unserved_causes(rule: Object, path: str) -> Iterator[Cause]:
    if "events.k8s.io" in (rule.get("apiGroups") or ()):
        why = 'this server calls no webhooks for events.k8s.io, whose events are also in the group ""; name ""'
        yield forbidden_field(f"{path}.apiGroups", why)


def _condition_causes(condition: Object, path: str) -> Iterator[Cause]:
    text = condition.get("expression")
    if not text:
        yield required(f"{path}.expression")
        return
    try:
        compiled(text)
    except ExpressionError as error:
        yield invalid_value(f"{path}.expression", text, f"compilation failed: {error}")


def _service_causes(service: Object, path: str) -> Iterator[Cause]:
    # as in kube-apiserver, the error about `namespace` names the field `name`, and vice versa
    for field, named in (("namespace", "name"), ("name", "namespace")):
        if not service.get(field):
            yield required(f"{path}.{named}")
    port = service.get("port")
    for problem in formats.port_number(port) if port is not None else ():
        yield invalid_value(f"{path}.port", port, f"port is not valid: {problem}")
    place = service.get("path") or "/"
    if not place.startswith("/"):
        yield invalid_value(f"{path}.path", place, "must start with a '/'")
    for number, part in enumerate(place[1:].removesuffix("/").split("/") if place != "/" else ()):
        if not part:
            yield invalid_value(f"{path}.path", place, f"segment[{number}] may not be empty")
        for problem in formats.dns_subdomain(part) if part else ():
            yield invalid_value(f"{path}.path", place, f"segment[{number}]: {problem}")


def _client_causes(client: Object, path: str) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        found = urlsplit(url)
        form = "desired format: https://host[/path]"
        if found.scheme != "https":
            yield invalid_value(f"{path}.url", found.scheme, f"'https' is the only allowed URL scheme; {form}")
        if not found.hostname:
            yield invalid_value(f"{path}.url", found.netloc, f"host must be specified; {form}")
        if found.username or found.fragment or found.query:
            yield invalid_value(
                f"{path}.url", url, "user information, fragments and queries are not permitted in the URL"
            )
    else:
        yield from _service_causes(service or {}, f"{path}.service")
    if bundle := client.get("caBundle"):
        try:
            ssl.create_default_context(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
        except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
            yield invalid_value(f"{path}.caBundle", "<bytes>", f"unable to load root certificates: {error}")
