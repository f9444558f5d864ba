"""Makes scenes from the grammars of Slurm's manual pages: options with right, wrong and abbreviated values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.slurm.beside.player import Scene, Step

# kind of value -> values of it, right and wrong
VALUES: dict[str, tuple[str, ...]] = {
    "count": ("1", "2", "16", "17", "0", "-1", "x", "+3"),
    "nodes": ("1", "2", "4", "5", "1-2", "3-2", "0", "x", "1-"),
    "time": ("1", "10", "1:00", "1-0", "0", "8-0", "INFINITE", "x"),
    "memory": ("100", "1G", "64000", "64001", "0", "1.5G", "x"),
    "moment": ("now", "now+1hour", "tomorrow", "16:00", "2030-01-01", "x"),
    "gpus": ("1", "4", "5", "9", "gpu:1", "tesla:1", "x"),
    "gres": ("gpu", "gpu:2", "gpu:5", "gpu:tesla:1", "none", "foo:1"),
    "partition": ("batch", "short", "batch,short", "closed", "priv", "nowhere", ""),
    "account": ("physics", "chem", "nothing", ""),
    "qos": ("normal", "fast", "nothing"),
    "features": ("fast", "big", "fast&big", "fast|big", "nothing"),
    "hosts": ("cn1", "cn[1-2]", "cn9", "cn1,cn3"),
    "array": ("1-3", "1-3%1", "0-4:2", "3-1", "x"),
    "dependency": ("singleton", "afterok:1", "afterany:$J1", "nonsense", "afterok:x"),
    "word": ("a", "two", ""),
}
SUBMIT: dict[str, str] = {
    "--ntasks": "count", "-n": "count", "--cpus-per-task": "count", "-c": "count", "--ntasks-per-node": "count",
    "--mincpus": "count", "--nodes": "nodes", "-N": "nodes", "--time": "time", "-t": "time", "--time-min": "time",
    "--mem": "memory", "--mem-per-cpu": "memory", "--tmp": "memory", "--begin": "moment", "--deadline": "moment",
    "--gpus": "gpus", "-G": "gpus", "--gpus-per-node": "gpus", "--gpus-per-task": "gpus", "--gres": "gres",
    "--partition": "partition", "-p": "partition", "--account": "account", "--qos": "qos", "--constraint": "features",
    "--nodelist": "hosts", "--exclude": "hosts", "--array": "array", "--dependency": "dependency",
    "--job-name": "word", "--comment": "word", "--nice": "count", "--priority": "count", "--switches": "count",
    "--ntasks-per-core": "count", "--ntasks-per-socket": "count", "--threads-per-core": "count",
    "--cores-per-socket": "count", "--sockets-per-node": "count", "--core-spec": "count", "--hint": "word",
    "--distribution": "word", "--profile": "word", "--propagate": "word", "--cpu-freq": "word", "--gpu-bind": "word",
}  # fmt: skip
LISTS: dict[str, tuple[str, ...]] = {
    "squeue": ("-a", "-l", "-r", "--me", "-t all", "-t PD", "-t nothing", "-p short", "-u u1", "-u nosuch",
               "-A physics", "-q fast", "-S i", "-S -i", "-o '%i %j %T'", "-o '%.10i|%P'", "-O jobid,name",
               "-O state:.12", "-j $J1",
               "-j 99999999", "-s", "--start", "-M nowhere", "-R none", "--nosuch"),
    "sinfo": ("-N", "-l", "-s", "-R", "-e", "-t idle", "-t alloc", "-p short", "-n cn1", "-o '%P %t'", "-O nodes,cpus",
              "-S P", "--nosuch"),
    "sacct": ("-X", "-X -S midnight", "-X -S noon", "-X -P", "-n", "-b", "-o JobID,State", "-o nothing", "-j $J1",
              "-s CD", "-s nothing", "-r short", "--name=a", "--nosuch"),
    "sprio": ("-l", "-n", "-w", "-u u1", "-o '%i %Y'"),
    "scontrol": ("show job $J1", "show node cn1", "show partition short", "hold $J1", "release $J1", "requeue $J1",
                 "update jobid=$J1 timelimit=5", "update jobid=$J1 name=b", "show nothing", "show job 99999999"),
    "scancel": ("$J1", "-u u1", "-n a", "-t PD", "-p short", "99999999", "x", "-s USR1 $J1"),
}  # fmt: skip


def scenes(seed: int, steps: int) -> Iterator[Scene]:
    """Yield scenes with `steps` steps in total; the same ones for the same seed."""
    chance, made, at = random.Random(seed), 0, 0
    while made < steps:
        lines = [_submission(chance), *(_line(chance) for _ in range(chance.randint(3, 8)))]
        yield Scene(f"seed {seed}, scene {at}", tuple(lines))
        made, at = made + len(lines), at + 1


def _submission(chance: random.Random) -> Step:
    """A job that waits, so that both sides have the same to show."""
    options = " ".join(_option(chance) for _ in range(chance.randint(0, 2)))
    return Step(f"sbatch -H -o /dev/null {options} --wrap 'sleep 1'", chance.choice(("u1", "u1", "u2")), "1")


def _option(chance: random.Random) -> str:
    name = chance.choice(sorted(SUBMIT))
    value = chance.choice(VALUES[SUBMIT[name]])
    if name.startswith("--") and chance.random() < 0.1:
        name = name[: chance.randint(4, len(name))]  # abbreviated, maybe ambiguously
    return f"{name}='{value}'" if name.startswith("--") else f"{name} '{value}'"


def _line(chance: random.Random) -> Step:
    if chance.random() < 0.4:
        return _submission(chance)
    command = chance.choice(sorted(LISTS))
    return Step(f"{command} {_some(chance, LISTS[command])}", chance.choice(("u1", "u2")))


def _some(chance: random.Random, words: Sequence[str]) -> str:
    return chance.choice(words)
