"""Two objects of one submission are stored together, or neither is (`endpoints/write.py`)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.apimachinery.limits import OBJECT_BYTES
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints import write
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.storage.store import Store


class Places(Store):
    """A store that only notes the names of what is put."""

    def __init__(self) -> None:
        self._next, self.names = 7, list[str]()

    def put(self, key: Any, namespace: str, name: str, obj: Any) -> Any:
        self.names.append(name)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def named(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "uid": name}, "data": "x" * size}


@pytest.mark.parametrize(
    ("secret", "job", "stored"),
    [(10, 10, ["secret", "job"]), (10, OBJECT_BYTES, []), (OBJECT_BYTES, 10, [])],
)
def test_neither_is_stored_if_one_is_too_large(
    secret: int, job: int, stored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Places()
    others: Any = SimpleNamespace(has_webhooks=False, counting=lambda *_: nullcontext())
    writer = ObjectWriter(store, others, others)
    target: Any = SimpleNamespace(resource=SimpleNamespace(key=("", "secrets")), namespace="ns")

    async def new(self: ObjectWriter, target: Any, body: Any, intent: Any) -> Any:
        return body

    monkeypatch.setattr(ObjectWriter, "_new", new)
    monkeypatch.setattr(write, "from_body", lambda knowledge, resource, body, intent: body)
    bodies = named("secret", secret), named("job", job)
    if stored:
        asyncio.run(writer.create_owned(target, target, bodies, others))
    else:
        with pytest.raises(StatusError):
            asyncio.run(writer.create_owned(target, target, bodies, others))
    assert store.names == stored
