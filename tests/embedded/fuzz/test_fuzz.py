"""Any request of a user is answered soon, never by 5xx, and leaks no memory. `make fuzz` sends 100,000 requests."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.embedded.fuzz.grammar import Asked
from tests.embedded.fuzz.objects import sound
from tests.embedded.fuzz.play import MOMENTS, NAMESPACE, Played, hostile_server, play, resources

REQUESTS = int(os.environ.get("PHALANX_REQUESTS", "5000"))
SAMPLE = 2000  # those of `make test`
SEED = int(os.environ.get("PHALANX_SEED", "1"))
GROWTH_BYTES = 96 * 2**20  # caches that have bounds, and what is kept of the past
FLAT_BYTES = 24 * 2**20  # in the second half of the requests, when caches are warm
PLOT = os.environ.get("PHALANX_PLOT", "")  # an SVG file to be written, once for each user


@pytest.mark.parametrize(
    ("requests", "as_admin"),
    [
        pytest.param(min(SAMPLE, REQUESTS), False, marks=pytest.mark.slow, id="a few"),
        pytest.param(REQUESTS, False, marks=pytest.mark.long, id="hostile"),
        pytest.param(REQUESTS // 4, True, marks=pytest.mark.long, id="admin"),
    ],
)
@pytest.mark.timeout(3600)
def test_no_request_stops_the_server(tmp_path: Path, requests: int, as_admin: bool) -> None:
    # A process of its own: what earlier tests have left in this one's memory would be measured too.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        played = apart.submit(played_apart, tmp_path / "data", requests, as_admin).result()
    print(f"{played.requests} requests, {dict(sorted(played.codes.items()))}, slowest {played.slowest_s:.2f} s")
    if PLOT:
        draw(played, Path(PLOT).with_stem(f"{Path(PLOT).stem}-{'admin' if as_admin else 'hostile'}"))
    assert not played.bad
    begun, half, end = (played.rss_bytes[at] for at in (0, len(played.rss_bytes) // 2, -1))
    assert end - begun < GROWTH_BYTES, played.rss_bytes
    assert end - half < FLAT_BYTES, played.rss_bytes


def played_apart(data: Path, requests: int, as_admin: bool) -> Played:
    return asyncio.run(play(data, requests, SEED, as_admin=as_admin))


def draw(played: Played, path: Path) -> None:
    """Memory against requests."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3))
    axes = figure.subplots()
    step = max(1, played.requests // MOMENTS)
    axes.plot([at * step for at in range(len(played.rss_bytes))], [one / 2**20 for one in played.rss_bytes])
    axes.set(xlabel="requests", ylabel="resident memory (MiB)", ylim=(0, None), title=path.stem)
    figure.tight_layout()
    figure.savefig(path)


def test_the_grammar_reaches_all_that_is_served(tmp_path: Path) -> None:
    """Generated bodies are wrong because of their mutations only: without mutations they are accepted."""

    async def run() -> set[str]:
        refused = set()
        async with hostile_server(tmp_path / "data") as (_, admin):
            for one in await resources(admin):
                if "create" not in one.verbs or "/" in one.plural or one.kind in NOT_ALONE:
                    continue
                namespace = NAMESPACE if one.namespaced else ""
                path = f"{one.root}/namespaces/{NAMESPACE}/{one.plural}" if namespace else f"{one.root}/{one.plural}"
                obj = sound(one.kind, one.api_version, one.root.replace("/", "-").strip("-"), namespace)
                code, said = await admin.ask(Asked.json("POST", path, obj))
                if code != 201:
                    refused.add(f"{one.api_version} {one.kind}: {said!r}")
        return refused

    assert asyncio.run(run()) == set()


# They refer to other objects, or their names depend on their content.
NOT_ALONE = {
    *("Binding", "CustomResourceDefinition", "MutatingAdmissionPolicy"),
    *("MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"),
}
