"""`cli/views/top_view.py`: the screen of `phalanx top`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.commands.status.top import ScreenState, refresh
from phalanx.cli.views import node_view, queue_view, top_view
from phalanx.cli.views.job import reading
from phalanx.cli.views.top_view import TopPicture, own_first, screen, text_screen
from phalanx.errors import PhalanxError
from tests.cli.test_job_reading import NOW_S, batch_job, foreign_pod, node, queue, snapshot

USER = "phalanx.dev/user"


def gpu_node(name: str) -> dict[str, Any]:
    found = node(name)
    found["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    return found


def of_user(user: str, name: str, cpu: str = "3") -> dict[str, Any]:
    found = batch_job(name, 2, cpu)
    found["metadata"]["annotations"] = {USER: user}
    return found


SEEN = snapshot(
    gpu_node("n1"), queue("default"), foreign_pod("dns", "n1", "3"), of_user("eve", "a"), of_user("ada", "b")
)


def picture(**changes: Any) -> TopPicture:
    jobs, own = own_first(reading.views(SEEN), "ada", "default")
    found = TopPicture(
        now_s=NOW_S,
        user="ada",
        jobs=tuple(jobs),
        own=own,
        nodes=tuple(node_view.views(SEEN)),
        queues=tuple(queue_view.views(SEEN)),
        node_use={"n1": (1500, 3 << 30)},
    )
    return replace(found, **changes)


def lines(found: TopPicture, width: int = 160, height: int = 30, selected: int = 0) -> list[str]:
    return [line.rstrip() for line in screen(found, selected, width, height).plain.splitlines()]


def test_the_screen_shows_header_nodes_queues_and_own_jobs_first() -> None:
    shown = lines(picture())
    assert shown[0] == (
        "jobs: 0 running, 2 waiting; yours: 0 running, 1 waiting   nodes: 1 of 1 ready   GPUs: 0 of 8 used"
    )
    assert shown[2:4] == [
        "NODE   STATE   GPU   PODS    CPU   CPU USED   MEMORY   MEMORY USED",
        "n1     ready   0/8   1/110   3/4   1.5        0/8Gi    3Gi",
    ]
    assert shown[6].startswith("default   0         2         0.00    open")
    assert [line[:9] for line in shown[8:11]] == ["JOB      ", "default/b", "default/a"]
    assert (
        " ada    default   queued   0/2           -          -             2m10s   2 pods of role b asked" in shown[9]
    )
    assert len(shown) == 30
    assert shown[-1] == top_view.KEYS


def test_a_job_without_a_user_is_ones_own_in_the_own_namespace() -> None:
    found = [replace(view, user="") for view in reading.views(SEEN)]
    assert own_first(found, "ada", "default")[1] == {"default/a", "default/b"}
    assert own_first(found, "ada", "team")[1] == set()


def test_a_low_and_narrow_terminal_shows_the_chosen_job_and_marks_what_is_cut() -> None:
    many = tuple(replace(picture().jobs[0], id=f"default/job-{number}") for number in range(40))
    nodes = tuple(replace(picture().nodes[0], name=f"n{number}") for number in range(40))
    shown = lines(picture(jobs=many, nodes=nodes), width=70, height=24, selected=30)
    assert len(shown) == 24
    assert max(map(len, shown)) <= 70
    assert any(line.startswith("default/job-30") and line.endswith("…") for line in shown)
    assert [line for line in shown if " of 40:" in line] == ["rows 1 to 7 of 40:", "rows 27 to 34 of 40:"]


def test_requests_of_others_are_unknown_to_a_user_who_may_not_list_them() -> None:
    shown = lines(picture(partial=True, queues=()))
    assert "jobs: ? running, ? waiting" in shown[0]
    assert "GPUs: ? of 8" in shown[0]
    assert "n1     ready   ?/8   ?/110   ?/4   1.5        ?/8Gi    3Gi" in shown
    assert picture(partial=True).record()["nodes"][0]["used"] is None


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in text_screen("a\x1b[2Jb", 20, 5).plain
    loud = replace(picture().jobs[0], reason=None, message="\x1b[2J", state="failed")
    assert "\x1b" not in screen(picture(jobs=(loud,)), 0, 200, 30).plain


def test_of_a_long_log_the_end_is_shown() -> None:
    text = "\n".join(f"line {number}" for number in range(50))
    assert text_screen(text, 20, 5, from_end=True).plain.splitlines()[:4] == [
        "line 46",
        "line 47",
        "line 48",
        "line 49",
    ]
    assert text_screen(text, 20, 5).plain.splitlines()[0] == "line 0"


class Agent:
    """In place of the agent with the user's rights."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def output(self, job: str, since: str) -> Sequence[tuple[str, str, str]]:
        return [("t", "0", f"{job} says hello")]

    async def act(self, job: str, action: str, value: int) -> str:
        self.done.append(f"{action} {job}")
        if len(self.done) > 1:
            raise PhalanxError("it is gone")
        return f"{job} was cancelled"


async def test_keys_choose_explain_show_the_log_and_cancel_after_a_yes() -> None:
    agent: Any = Agent()
    shown = ScreenState(picture(), SEEN, agent)

    async def after(*keys: str) -> str:
        for key in keys:
            assert await shown.press(key)
        return shown.draw(120, 30).plain

    assert "default/b: queued for 2m10s" in await after("e")
    assert top_view.KEYS in await after("x")
    assert "default/a says hello" in await after("down", "down", "l")
    assert "cancel default/a? y/n" in await after("x", "c")
    assert "nothing was cancelled" in await after("n")
    assert agent.done == []
    assert "default/a was cancelled" in await after("c", "", "y")
    assert "error: it is gone" in await after("up", "c", "y")
    assert agent.done == ["cancel default/a", "cancel default/b"]
    assert not await shown.press("q")


async def test_the_choice_stays_on_its_job_and_goes_to_the_neighbour_of_a_job_that_is_gone() -> None:
    agent: Any = Agent()
    shown = ScreenState(picture(), SEEN, agent)
    first, second = shown.picture.jobs
    assert shown.job is first
    shown.picture = picture(jobs=(second, first))
    assert shown.job is first
    shown.picture = picture(jobs=(second,))
    assert shown.job is second
    shown.picture = picture(jobs=())
    assert shown.job is None
    assert await shown.press("c")
    assert "you have no jobs" in shown.draw(120, 30).plain


async def test_a_look_that_fails_leaves_the_last_picture_and_says_so() -> None:
    agent: Any = Agent()
    shown, keys = ScreenState(picture(), SEEN, agent), asyncio.Queue[str]()

    async def fails() -> tuple[TopPicture, Snapshot]:
        raise ExceptionGroup("lists", [PhalanxError("the server is away")])

    refreshing = asyncio.create_task(refresh(shown, fails, keys, 0.0))
    await asyncio.wait_for(keys.get(), 60)
    refreshing.cancel()
    assert shown.draw(120, 30).plain.splitlines()[-1] == "not refreshed: the server is away"
    assert "default/b" in shown.draw(120, 30).plain
