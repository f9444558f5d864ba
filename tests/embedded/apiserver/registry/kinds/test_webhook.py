"""Configurations of webhooks: what is refused when they are written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.admission.hooks import CONFIGURATIONS, Hooks, configuration
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow  # real processes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "short"}, "three segments"),
        ({"sideEffects": None}, "sideEffects: Required value"),
        ({"sideEffects": "Some"}, "sideEffects: Unsupported value"),
        ({"failurePolicy": "Panic"}, "failurePolicy: Unsupported value"),
        ({"timeoutSeconds": 31}, "between 1 and 30 seconds"),
        ({"admissionReviewVersions": []}, "admissionReviewVersions: Required value"),
        ({"admissionReviewVersions": ["v1beta1"]}, "only in v1"),
        ({"clientConfig": {}}, "exactly one of url or service"),
        ({"clientConfig": {"url": "http://127.0.0.1/a"}}, "'https' is the only allowed URL scheme"),
        ({"clientConfig": {"url": "https://u:p@127.0.0.1/a"}}, "user information"),
        ({"clientConfig": {"url": "https://127.0.0.1/a", "caBundle": "AAAA"}}, "unable to load root certificates"),
        ({"matchConditions": [{"name": "a", "expression": "object."}]}, "compilation failed"),
        ({"rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}]}, "operations: Required"),
    ],
    ids=str,
)
def test_what_is_no_webhook_is_refused_when_it_is_written(tmp_path: Path, change: Any, words: str) -> None:
    async def run() -> None:
        async with InProcess.started(tmp_path) as server:
            answer = await server.ask("POST", CONFIGURATIONS, configuration({**Hooks().hook("/a"), **change}))
            assert answer.code == 422, answer.body
            assert words in answer.body["message"]

    asyncio.run(run())


WRONG_RULES: tuple[tuple[Any, str], ...] = (
    ({"operations": ["*", "CREATE"]}, "if '*' is present, must not specify other operations"),
    ({"operations": ["PATCH"]}, 'Unsupported value: "PATCH"'),
    ({"apiGroups": ["events.k8s.io"]}, "this server calls no webhooks for events.k8s.io"),
)


@pytest.mark.parametrize(("change", "words"), WRONG_RULES, ids=str)
def test_a_wrong_rule_is_refused(tmp_path: Path, change: Any, words: str) -> None:
    async def run() -> None:
        async with InProcess.started(tmp_path) as server:
            hook = Hooks().hook("/a")
            hook["rules"][0] |= change
            answer = await server.ask("POST", CONFIGURATIONS, configuration(hook))
            assert answer.code == 422
            assert words in answer.body["message"]

    asyncio.run(run())
