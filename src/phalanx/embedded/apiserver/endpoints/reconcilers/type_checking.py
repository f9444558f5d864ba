"""Find type errors in the expressions of ValidatingAdmissionPolicies, and write them into `status.typeChecking`.

When a user writes a policy, the server checks its expressions without the type of `object`. This controller checks the
policy's validations afterwards, once for each generation of its spec. It uses the types of the kinds that the rules of
the policy name, and the type of its parameters. The errors are written into the status for the author of the policy,
and have no other effect.

Source: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus and
k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go, which define the limits: no rules with a `*`
for groups or versions, no subresources, and at most ten kinds of a rule.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from itertools import product

from phalanx.embedded.apimachinery.expressions.admission_policy import GROUP
from phalanx.embedded.apimachinery.expressions.policy_types import judged
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.registry.value_types import type_of_kind
from phalanx.embedded.apiserver.storage.store import Event, Store

KEY = (GROUP, "validatingadmissionpolicies")
_MANAGER = "validatingadmissionpolicy-status-controller"
_BY = Intent(user=User(name=f"system:serviceaccount:kube-system:{_MANAGER}"), manager=_MANAGER)
_MOST_KINDS = 10
_log = logging.getLogger(__name__)


class TypeChecking:
    """Keeps the status of policies up to date with their specs. The caller calls `start` before the first request."""

    def __init__(self, store: Store, registry: Registry, writer: ObjectWriter) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Check the policies that were not checked before the server ended."""
        self._store.subscribe(self._heard)
        for stored in self._store.scan(KEY):
            self._look_at(stored.obj)

    def _heard(self, events: Iterable[Event]) -> None:
        for name in {event.name for event in events if event.key == KEY}:
            if (stored := self._store.get(KEY, "", name)) is not None:
                self._look_at(stored.obj)

    def _look_at(self, policy: Object) -> None:
        observed = (policy.get("status") or {}).get("observedGeneration", 0)
        if policy["metadata"].get("generation", 0) > observed:
            task = asyncio.get_running_loop().create_task(self._check(policy))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Log the error of the task. If the status of a policy could not be stored, the policy is checked again at its
        next change, or at the next start."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a ValidatingAdmissionPolicy is not checked yet: %s", error)

    async def _check(self, policy: Object) -> None:
        resource = self._registry.find(GROUP, "v1", KEY[1])
        assert resource is not None  # the kind is built in
        meta = policy["metadata"]
        found = [{"fieldRef": path, "warning": text} for path, text in warnings(policy["spec"], self._registry)]
        body = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"name": meta["name"], "uid": meta["uid"]},
            "status": {
                "observedGeneration": meta["generation"],
                "typeChecking": {"expressionWarnings": found} if found else {},
            },
        }
        target = RouteTarget(resource=resource, name=meta["name"], subresource=resource.subresource("status"))
        try:
            await self._writer.patch(target, APPLY_PATCH, body, _BY, force=True)
        except StatusError as error:
            if error.code not in (404, 409):  # if the policy was deleted, another policy may have its name now
                raise


def warnings(spec: Object, registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield (field path, error) for each expression with type errors in the policy's validations. The error lists the
    mistakes for each kind of object."""
    kinds, params = _kinds(spec, registry), _params(spec, registry)
    of_params = None if params is None else type_of_kind(params)
    said: dict[str, list[str]] = {}
    for kind in kinds:
        for path, _, verdict in judged(spec, type_of_kind(kind), of_params):
            if verdict.errors and path.startswith("spec.validations"):
                text = "\n".join(verdict.errors)
                said.setdefault(path, []).append(f"{kind.group}/{kind.version}, Kind={kind.kind}: {text}\n")
    for path in sorted(said, key=lambda path: int(path.partition("[")[2].partition("]")[0])):
        yield path, "\n".join(said[path])


def _kinds(spec: Object, registry: Registry) -> list[Resource]:
    """Return the kinds that the rules of a policy name, in the order of their groups, versions and names."""
    found: dict[tuple[str, str, str], Resource] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        count = 0
        if any("*" in text for field in ("apiGroups", "apiVersions") for text in rule.get(field) or ()):
            continue
        plurals = [plural for plural in rule.get("resources") or () if "*" not in plural and "/" not in plural]
        for where in product(*map(sorted, (rule.get("apiGroups") or (), rule.get("apiVersions") or (), plurals))):
            kind = registry.find(*where)
            if kind is not None:
                found[kind.group, kind.version, kind.kind] = kind
                count += 1
            if count == _MOST_KINDS:
                return [found[key] for key in sorted(found)]
    return [found[key] for key in sorted(found)]


def _params(spec: Object, registry: Registry) -> Resource | None:
    said = spec.get("paramKind") or {}
    wanted = (said.get("apiVersion"), said.get("kind"))
    return next((one for one in registry.resources if (one.api_version, one.kind) == wanted), None)
