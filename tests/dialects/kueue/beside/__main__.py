"""Generated scenarios on a Kueue and on Phalanx, and where they differ.

    .venv/bin/python -m tests.dialects.kueue.beside --kueue PROGRAM --components FOLDER --scenarios 300 --seed 1
    .venv/bin/python -m tests.dialects.kueue.beside --scenarios 20

PROGRAM is Kueue's own, FOLDER is `config/components` of its source; nothing of either is here. Without them, Phalanx is
held against itself: what differs then depends on the order of events, and no difference between schedulers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path

import yaml

from tests.dialects.kueue.beside.generator import FAIR_TREE, FAMILIES, Scenario, scenario
from tests.dialects.kueue.beside.player import Picture, Player
from tests.dialects.kueue.beside.sides import STRATEGIES, Kueue, kueue, phalanx


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dialects.kueue.beside", description=__doc__)
    parser.add_argument("--kueue", type=Path, help="Kueue's program")
    parser.add_argument("--components", type=Path, help="config/components of its source")
    parser.add_argument("--scenarios", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", type=int, help="these seeds")
    parser.add_argument("--family", choices=(*FAMILIES, FAIR_TREE), help="all of one family")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, help="of fair sharing, in this order")
    parser.add_argument("--batch", type=int, default=10, help="scenarios at the same time")
    parser.add_argument("--quiet", type=float, default=2.0, help="seconds without a change before a picture")
    parser.add_argument("--most", type=float, default=60.0, help="seconds until a step that goes on changing is left")
    parser.add_argument("--port", type=int, default=19443, help="of Kueue's webhooks")
    parser.add_argument("--out", type=Path, help="where each scenario that differs is written")
    said = parser.parse_args()
    seeds = said.only or range(said.seed, said.seed + said.scenarios)
    every = [scenario(seed, said.family) for seed in seeds]
    score: Counter[str] = Counter()
    for fair in (False, True):
        if chosen := [one for one in every if one.fair is fair]:
            asyncio.run(_compare(chosen, said, score, fair=fair))
    print(f"\n{_part(score, 'steps')} steps, {_part(score, 'lines')} lines of status, {_part(score, 'all')} scenarios")
    for family in (*FAMILIES, FAIR_TREE):
        if score[f"of {family}"]:
            print(f"  {family:10} {_part(score, family)} steps")
    return 0


async def _compare(chosen: list[Scenario], said: argparse.Namespace, score: Counter[str], *, fair: bool) -> None:
    given = Kueue(program=said.kueue, components=said.components, port=said.port) if said.kueue else None
    with tempfile.TemporaryDirectory(prefix="beside-") as place:
        places = [Path(place, name) for name in ("first", "second")]
        for each in places:
            each.mkdir()
        chosen_strategies = said.strategies if fair else ()
        first = kueue(places[0], given, chosen_strategies) if given else phalanx(places[0], chosen_strategies)
        async with first as theirs, phalanx(places[1], chosen_strategies) as ours:
            binds = given is not None
            waits = {"quiet_s": said.quiet, "most_s": said.most}
            players = (Player(theirs, binds=binds, **waits), Player(ours, binds=False, **waits))
            for at in range(0, len(chosen), said.batch):
                batch = chosen[at : at + said.batch]
                real, made = await asyncio.gather(*(player.play(batch) for player in players))
                for one in batch:
                    _judge(one, real[one.name], made[one.name], said.out, score)


def _judge(one: Scenario, real: list[Picture], made: list[Picture], out: Path | None, score: Counter[str]) -> None:
    if not all(each.settled for each in (*real, *made)):
        print(f"{one.name} ({one.family}) did not settle", flush=True)
        return
    alike = True
    for at, (theirs, ours) in enumerate(zip(real, made, strict=True)):
        same = theirs.decisions == ours.decisions and theirs.refused == ours.refused
        for title, lines in theirs.answers.items():
            score["of lines"] += len(lines)
            score["lines"] += len(set(lines) & set(ours.answers.get(title, ())))
        for key in ("steps", one.family):
            score[f"of {key}"] += 1
            score[key] += same
        if not same and alike:
            print(f"{one.name} ({one.family}), step {at}: {json.dumps(_change(one.steps[at]))}", flush=True)
            print(f"    first    {json.dumps(theirs.decisions)} {theirs.refused or ''}")
            print(f"    second   {json.dumps(ours.decisions)} {ours.refused or ''}")
        alike = alike and same
    score["of all"] += 1
    score["all"] += alike
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        pictures = {"kueue": [vars_of(each) for each in real], "phalanx": [vars_of(each) for each in made]}
        text = yaml.safe_dump({**one.document(), **pictures}, sort_keys=False, width=120)
        (out / f"{one.name}-{'alike' if alike else 'differs'}.yaml").write_text(text)


def vars_of(picture: Picture) -> dict[str, object]:
    return {"decisions": picture.decisions, "answers": picture.answers, "refused": picture.refused}


def _change(step: dict[str, object]) -> object:
    applied = step.get("apply")
    return [obj["metadata"]["name"] for obj in applied] if isinstance(applied, list) else step


def _part(score: Counter[str], key: str) -> str:
    return f"{score[key]} of {score[f'of {key}']} ({100 * score[key] / max(score[f'of {key}'], 1):.1f} %)"


if __name__ == "__main__":
    raise SystemExit(main())
