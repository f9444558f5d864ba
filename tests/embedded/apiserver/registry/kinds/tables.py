"""Objects with a name, and their rows in tables, for tests of kinds."""

from __future__ import annotations

import json
from typing import Any

from tests.embedded.apiserver.inprocess import InProcess

TABLE = b"application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"


async def row(client: InProcess, path: str) -> list[Any]:
    """Return the cells of the first row of the list, as `kubectl get` prints them."""
    raw = client.request("GET", path)
    raw.headers[b"accept"] = TABLE
    return list(json.loads((await client.api(raw)).body)["rows"][0]["cells"])


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


async def refused(client: InProcess, path: str, obj: Any) -> str:
    """Return the message with which a POST of the object is refused."""
    answer = await client.ask("POST", path, {"metadata": {"name": "x"}, **obj})
    assert answer.code == 422, answer.body
    return str(answer.body["message"])


async def is_immutable(client: InProcess, path: str, obj: Any, change: Any) -> bool:
    """Create the object, and return whether the change is refused because a field is immutable."""
    await client.make(path, {"metadata": {"name": "x"}, **obj})
    answer = await client.ask("PATCH", f"{path}/x", change, MERGE)
    return answer.code == 422 and "field is immutable" in answer.body["message"]


async def warning(client: InProcess, path: str, obj: Any) -> str:
    """Create the object, and return its only warning."""
    answer = await client.ask("POST", path, {"metadata": {"name": "w"}, **obj})
    assert answer.code == 201, answer.body
    (text,) = answer.warnings
    return str(text)
