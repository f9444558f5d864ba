"""`cli/commands/status/dashboard.py`: the options and the link of `phalanx dashboard`, and a study."""

from __future__ import annotations

import asyncio
import webbrowser
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.cluster.target import Target
from phalanx.cli.commands.status import dashboard as module
from phalanx.cli.views.page.entrance import Entrance
from phalanx.errors import PhalanxError


def test_the_options_are_checked_before_libraries_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "require", lambda tell: pytest.fail("libraries were installed"))
    with pytest.raises(PhalanxError, match="is not an address to listen on"):
        asyncio.run(module.dashboard(entrance=Entrance(sign_in=True, address="here")))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, ""),
        (Target(), ""),
        (Target(context="prod"), " --context prod"),
        (Target(kubeconfig=Path("/k/one")), " --kubeconfig /k/one"),
        (Target(kubeconfig=Path("/my k/one"), context="a b"), " --kubeconfig '/my k/one' --context 'a b'"),
        (Target(kubeconfig=Path("one")), " --kubeconfig HERE/one"),
        (Target(kubeconfig=Path("~/one")), " --kubeconfig /home/ada/one"),
    ],
)
def test_commands_on_the_page_reach_the_same_cluster(
    target: Target | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.chdir(tmp_path)
    assert module._terminal(target) == words.replace("HERE", str(tmp_path))


@pytest.mark.parametrize("opened", [True, False])
def test_the_link_is_printed_alone_and_opened(
    opened: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda link: bool(asked.append(link)) or opened)
    asyncio.run(module._print_link("http://127.0.0.1:1/#a", opens=True))
    out, err = capsys.readouterr()
    assert (out, asked) == ("http://127.0.0.1:1/#a\n", ["http://127.0.0.1:1/#a"])
    assert err == ("" if opened else "no browser could be started; open the link yourself\n")
    asyncio.run(module._print_link("http://127.0.0.1:1/#a", opens=False))
    assert len(asked) == 1


def test_a_study_is_served_without_a_cluster_and_without_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []

    @asynccontextmanager
    async def serving(page: Any, port: int) -> Any:
        served.append((page, port))
        yield port

    async def stopped(work: Any) -> None:
        work.close()

    monkeypatch.setattr(module, "require", lambda tell: None)
    monkeypatch.setattr(module, "serving", serving)
    monkeypatch.setattr(module, "until_stopped", stopped)
    monkeypatch.setattr(module, "connected", lambda target: pytest.fail("a cluster was asked"))
    monkeypatch.setattr(module, "read_state", lambda file: (_State(), "study"))
    shown: list[Any] = []

    class Recorded(module.Page):
        def publish(self, state: Any) -> None:
            shown.append(state)

    monkeypatch.setattr(module, "Page", Recorded)
    asyncio.run(module.dashboard(state=tmp_path / "state", port=7))
    [(page, port)] = served
    assert port == 7
    assert isinstance(shown[0], _State)
    assert page.acts is False


class _State:
    """The state of a file."""
