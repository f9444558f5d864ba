"""`python -m tests.embedded.beside`: play random conversations on two API servers, and print where they differ.

    python -m tests.embedded.beside --theirs KUBECONFIG --seeds 9000:9300             # starts a server of this project
    python -m tests.embedded.beside --ours KUBECONFIG --theirs KUBECONFIG --seeds 9000:9300 --subject jobs --json

Both servers should have no controllers, RBAC, and no admission of service accounts. A kubeconfig's user needs a token
and the group system:masters. Nothing is known of how the other server was started.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.beside.player import Step, play_all, server_of
from tests.embedded.beside.subjects.catalogue import SUBJECTS, conversation_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.beside", description=__doc__.partition("\n")[0])
    parser.add_argument("--theirs", type=Path, required=True, metavar="KUBECONFIG", help="the server to compare with")
    parser.add_argument(
        "--ours", type=Path, metavar="KUBECONFIG", help="by default a server of this project is started"
    )
    parser.add_argument("--seeds", default="9000:9050", metavar="FIRST:END", help="default: %(default)s")
    parser.add_argument("--subject", choices=list(SUBJECTS), action="append", help="only conversations about this")
    parser.add_argument(
        "--jobs", type=int, default=4, metavar="N", help="conversations at a time (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print each step that differs as one line of JSON")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    talks = [conversation_of(seed) for seed in range(int(first), int(end or int(first) + 1))]
    talks = [one for one in talks if not given.subject or one.subject in given.subject]
    with _ours(given.ours) as kubeconfig:
        steps = asyncio.run(play_all(server_of(kubeconfig), server_of(given.theirs), talks, jobs=given.jobs))
    for step in steps:
        if step.differences:
            print(_line(step) if given.json else _text(step))
    print(summary(steps), file=sys.stderr if given.json else sys.stdout)
    return 0


@contextlib.contextmanager
def _ours(kubeconfig: Path | None) -> Iterator[Path]:
    """Yield the kubeconfig of our server, which is started if none is given."""
    if kubeconfig:
        yield kubeconfig
        return
    with tempfile.TemporaryDirectory() as folder, ServerProcess.started(Path(folder) / "data") as server:
        yield server.kubeconfig


def _line(step: Step) -> str:
    talk, ask = step.conversation, step.ask
    sent = {"method": ask.method, "path": ask.path, "media": ask.media, "body": ask.body, "headers": dict(ask.headers)}
    place = {"subject": talk.subject, "seed": talk.seed, "step": step.number, "base": ask.base}
    return json.dumps({**place, "sent": sent, "edits": ask.edits, "differences": step.differences}, default=repr)


def _text(step: Step) -> str:
    talk, ask = step.conversation, step.ask
    lines = [f"{talk.subject} {talk.seed}, request {step.number}: {ask.method} {ask.path}"]
    for one in step.differences[:6]:
        lines += [
            f"    {one['path']}",
            f"        theirs {one['expected']!r:.300}",
            f"        ours   {one['actual']!r:.300}",
        ]
    return "\n".join(lines)


def summary(steps: Sequence[Step]) -> str:
    """Return the rows of equal answers, by subject and in all."""
    rows = []
    for subject in SUBJECTS:
        if mine := [one for one in steps if one.conversation.subject == subject]:
            rows.append(f"{subject:12} {_share(mine)}")
    whole = {one.conversation.seed for one in steps}
    differing = {one.conversation.seed for one in steps if one.differences}
    equal = len(whole) - len(differing)
    return "\n".join([*rows, f"{'all':12} {_share(steps)}", f"{'whole':12} {equal:5} of {len(whole):5}"])


def _share(steps: Sequence[Step]) -> str:
    equal = sum(not one.differences for one in steps)
    return f"{equal:5} of {len(steps):5}  {100 * equal / max(1, len(steps)):5.1f} %"


if __name__ == "__main__":
    sys.exit(main())
