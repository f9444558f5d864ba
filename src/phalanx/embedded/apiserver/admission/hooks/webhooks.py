"""Admission webhooks (admissionregistration.k8s.io/v1): select the webhooks for a request, call them, and apply their
responses.

After the admission plug-ins and policies, the server calls every mutating webhook whose rules, selectors and conditions
match the request. The configurations are ordered by name, and their webhooks by position. Each webhook gets the object
with the changes of the previous webhooks. If a webhook has changed the object, the plug-ins and policies run again.
Then the server once more calls those webhooks with `reinvocationPolicy: IfNeeded` that ran before the change.
Validating webhooks are called concurrently, with the valid object that will be stored. If a call fails, the webhook's
`failurePolicy` decides whether the failure is ignored or the request is refused.

While the server waits for a webhook, it handles other requests, and these may change the objects that the write depends
on. So the functions of this module report whether they waited. If they did, `write.py` reads its objects again. A
webhook whose rule names another version of the kind gets the object in that version, unless it has `matchPolicy:
Exact`. Webhooks are also called for deletions and for connections to pods, and may refuse them.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from phalanx.embedded.apimachinery.expressions.admission_policy import (
    GROUP,
    BoundPolicy,
    Review,
    about,
    applies,
    kind_of,
    matched,
)
from phalanx.embedded.apimachinery.expressions.cel import CelView
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.json_patch import json_patch
from phalanx.embedded.apiserver.admission.hooks.webhook_call import CallFailed, WebhookCaller
from phalanx.embedded.apiserver.admission.policies import DEFINITIONS
from phalanx.embedded.apiserver.storage.store import Event, Store

_log = logging.getLogger(__name__)
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
# A function that takes a patched object, converts it to the schema of its kind, runs plug-ins and policies on it, and
# returns it.
Settle = Callable[[Object], Object]


@dataclass(frozen=True, slots=True, eq=False)
class _Hook:
    """A webhook. `said`: its entry in the webhook configuration. `constraints`: the requests that it matches. `bound`:
    its match conditions, in the form of an admission policy with nothing but match conditions."""

    said: Object
    constraints: Object
    bound: BoundPolicy

    @property
    def name(self) -> str:
        return str(self.said["name"])

    def concerns(self, review: Review) -> Resource | None:
        """Return the kind in the API version that the webhook must get; None if the webhook does not match the request.
        Raises `StatusError` if a condition cannot be evaluated and the failure policy is Fail."""
        form = matched(self.constraints, review)
        return form if form is not None and applies(self.bound, review, form) else None


class Webhooks:
    """The webhooks of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._caller = WebhookCaller(lambda plural, space: (one.obj for one in store.scan(("", plural), space)))
        self._known: dict[tuple[str, ...], dict[str, tuple[_Hook, ...]]] = {}
        store.subscribe(self._changed)

    def _changed(self, events: list[Event]) -> None:
        if any(event.key[0] == DEFINITIONS for event in events):
            self._known.clear()
        if any(event.key in ((GROUP, MUTATING), (GROUP, VALIDATING)) for event in events):
            self._known.clear()
            self._caller.forget()

    @property
    def any(self) -> bool:
        return any(self._store.count((GROUP, plural), "") for plural in (MUTATING, VALIDATING))

    def about(self, review: Review, plural: str = MUTATING) -> tuple[_Hook, ...]:
        """Return the webhooks that match the kind and the operation of the request. The result is cached until a
        configuration changes."""
        if review.resource.group == GROUP:
            # webhooks do not apply to webhook configurations, so that users can always correct a wrong configuration
            return ()
        known = self._known.setdefault(kind_of(review), {})
        if plural not in known:
            known[plural] = tuple(hook for hook in self._hooks(plural) if about(hook.constraints, review))
        return known[plural]

    def _hooks(self, plural: str) -> Iterator[_Hook]:
        found = (one.obj for one in self._store.scan((GROUP, plural)))
        for configuration in sorted(found, key=lambda one: str(one["metadata"]["name"])):
            for said in configuration.get("webhooks") or ():
                yield _hook(configuration, said)

    async def mutate(self, review: Review, hooks: tuple[_Hook, ...], settle: Settle) -> tuple[Object, list[str]] | None:
        """Call the mutating webhooks in order. Return the object with their changes, and their warnings; None if no
        webhook was called. Raises `StatusError`."""
        assert review.obj is not None
        begin, warnings, waited = review.obj, list[str](), False
        called, again = list[_Hook](), set[_Hook]()
        for hook in hooks:
            form = hook.concerns(review)
            if form is None:
                continue
            waited = True
            changed = await self._called(hook, form, review, warnings)
            if changed != review.obj:
                again.update(called)
                review = replace(review, obj=changed)
            if hook.said.get("reinvocationPolicy") == "IfNeeded":
                called.append(hook)
        if review.obj is begin or review.obj == begin:
            return (begin, warnings) if waited else None
        assert review.obj is not None
        settled = settle(review.obj)
        again.update(called if settled != review.obj else ())
        review = replace(review, obj=settled)
        for hook in hooks:
            if hook in again and (form := hook.concerns(review)) is not None:
                review = replace(review, obj=await self._called(hook, form, review, warnings))
        assert review.obj is not None
        return review.obj, warnings

    async def validate(self, review: Review) -> list[str] | None:
        """Call the validating webhooks concurrently, and return their warnings; None if no webhook matches. Raises
        `StatusError`: the refusal of the first webhook that refuses."""
        concerned = [(hook, form) for hook in self.about(review, VALIDATING) if (form := hook.concerns(review))]
        if not concerned:
            return None
        warnings = [list[str]() for _ in concerned]
        calls = (self._asked(*each, review, said) for each, said in zip(concerned, warnings, strict=True))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [text for said in warnings for text in said]

    async def allow(self, review: Review) -> bool:
        """Call all webhooks that match a deletion or a connection. The webhooks cannot change such a request. Return
        True if a webhook was called. Raises `StatusError` if one of them refuses."""
        concerned = [(hook, form) for hook in self.about(review) if (form := hook.concerns(review))]
        for hook, form in concerned:
            await self._asked(hook, form, review, [])
        return await self.validate(review) is not None or bool(concerned)

    async def _asked(self, hook: _Hook, form: Resource, review: Review, warnings: list[str]) -> list[object]:
        """Call the webhook, and return the patch in its response; an empty patch if the call failed and the failure
        policy is Ignore. Raises `StatusError`."""
        try:
            mutation = await self._caller.call(hook.said, review, form)
        except CallFailed as error:
            if hook.said["failurePolicy"] == "Ignore":
                _log.warning("%s; the webhook is ignored", error)
                return []
            raise _internal(str(error)) from None
        warnings += mutation.warnings
        return mutation.patch

    async def _called(self, hook: _Hook, form: Resource, review: Review, warnings: list[str]) -> Object:
        """Return the object after the webhook's changes, in the version of the request."""
        was: Object = review.obj or {}
        patch = await self._asked(hook, form, review, warnings)
        if not patch:
            return was
        try:
            changed = json_patch(review.shown(form, was), patch)
        except StatusError as error:
            raise _internal(f'admission webhook "{hook.name}": its patch does not apply: {error.message}') from None
        if _identity(changed) != _identity(review.shown(form, was)):
            raise _internal(f'admission webhook "{hook.name}" attempted to change the identity of the object')
        return review.kept(form, changed)


def _hook(configuration: Object, said: Object) -> _Hook:
    conditions = said.get("matchConditions") or []
    policy = {
        "kind": "MutatingWebhookConfiguration",
        "metadata": configuration["metadata"],
        "spec": {"matchConditions": conditions, "failurePolicy": said["failurePolicy"]},
    }
    constraints = {
        "resourceRules": said.get("rules") or [],
        "namespaceSelector": said["namespaceSelector"],
        "objectSelector": said["objectSelector"],
        "matchPolicy": said.get("matchPolicy") or "Equivalent",
    }
    view = CelView(one["expression"] for one in conditions)
    return _Hook(said, constraints, BoundPolicy(policy, {"metadata": {"name": said["name"]}, "spec": {}}, view))


def _identity(obj: object) -> tuple[object, ...]:
    """Return the fields that no webhook may change: the kind and the identity of the object."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return ()
    meta = obj["metadata"]
    return (obj.get("kind"), obj.get("apiVersion"), *(meta.get(key) for key in ("name", "namespace", "uid")))


def _internal(why: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
