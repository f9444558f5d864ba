"""How long one user's reads wait while another user lists as fast as he can over many connections.

A server process of its own, with two users who may read ConfigMaps: `greedy` lists all of them as tables, `modest` gets
one, again and again. One JSON object on standard output; `lists_per_s` says that the other one is served as well. With
`--exempt` both are of system:masters, whose requests are answered as they come: what it would be without fair turns.

    python benchmarks/apiserver_fairness.py [--objects N] [--connections C] [--seconds S] [--exempt]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from apiserver_writes import Call, Connection, connect, measure, serving

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
USERS = ("greedy", "modest")
WARM_S = 3.0  # until what was used before is in the account


def furniture(objects: int) -> Iterator[Call]:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in USERS]
    role = {"kind": "ClusterRole", "name": "reads", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "reads"}, "roleRef": role, "subjects": subjects}
    media = "application/json"
    yield "POST", f"{RBAC}/clusterroles", json.dumps({"metadata": {"name": "reads"}, "rules": rules}).encode(), media
    yield "POST", f"{RBAC}/clusterrolebindings", json.dumps(binding).encode(), media
    for number in range(objects):
        body = {"metadata": {"name": f"c{number}"}, "data": {"x": "x" * 500}}
        yield "POST", MAPS, json.dumps(body).encode(), media


async def run(given: argparse.Namespace, data: Path, port: int, pid: int) -> dict[str, object]:
    tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    tokens = data / "tokens.csv"
    admin = tokens.read_text().split(",")[0]
    with tokens.open("a") as file:
        group = "system:masters" if given.exempt else ""
        file.writelines(f'{name}-token,{name},,"{group}"\n' for name in USERS)
    await asyncio.sleep(1.5)  # the file is read again within a second
    await measure([await connect(port, admin, tls)], furniture(given.objects), 201, pid)

    async def greedy(connection: Connection) -> None:
        nonlocal lists
        connection.head = connection.head.replace("application/json", TABLE)
        while True:
            assert await connection.call("GET", MAPS, b"", "") in (200, 429)
            lists += 1

    lists = 0
    tasks = [asyncio.ensure_future(greedy(await connect(port, "greedy-token", tls))) for _ in range(given.connections)]
    await asyncio.sleep(WARM_S)
    lists, modest, waits, begun = 0, await connect(port, "modest-token", tls), list[float](), time.perf_counter()
    while time.perf_counter() - begun < given.seconds:
        start = time.perf_counter()
        assert await modest.call("GET", f"{MAPS}/c1", b"", "") == 200
        waits.append(time.perf_counter() - start)
        await asyncio.sleep(0.02)
    took = time.perf_counter() - begun
    for task in tasks:
        task.cancel()
    waits.sort()
    return {
        "gets": len(waits),
        "p50_ms": round(waits[len(waits) // 2] * 1e3, 1),
        "p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "lists_per_s": round(lists / took, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--exempt", action="store_true", help="answer both as they come, without fair turns")
    given = parser.parse_args()
    with serving() as (data, port, pid):
        print(json.dumps({"benchmark": "apiserver_fairness"} | uvloop.run(run(given, data, port, pid))))


if __name__ == "__main__":
    main()
