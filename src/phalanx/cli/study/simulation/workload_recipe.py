"""Read how a workload file generates jobs: the distributions, and the requests that all generated jobs share."""

from __future__ import annotations

from dataclasses import replace

from phalanx.cli.study.simulation.workload_jobs import MOST_JOBS, read_closeness, read_shape
from phalanx.dialects.schema.fields import Fields, Misread, duration_s
from phalanx.simulator.workload.generate import (
    A_CPU,
    AN_HOUR,
    ONE,
    Distribution,
    DrawChoice,
    Exponential,
    LogNormal,
    LogUniform,
    Recipe,
    Uniform,
)

KINDS = "exponential: MEAN, lognormal: [MEDIAN, SIGMA], uniform: [LOW, HIGH], loguniform: [LOW, HIGH] or values"


def read_recipe(said: Fields) -> tuple[Recipe, str]:
    """And the trace to draw jobs from, if it names one. Raises Misread."""
    every_s = said.seconds("every", 60.0)
    if every_s <= 0:
        raise Misread((*said.path, "every"), "the mean time between submissions is above 0")
    day, pod = said.fields("day"), read_shape(said)
    recipe = Recipe(
        jobs=said.whole("jobs", 1000, least=0, most=MOST_JOBS),
        every_s=every_s,
        swing=_part(day, "swing"),
        peak_s=day.seconds("peak", 14 * 3600.0),
        pods=_distribution(said, "pods", ONE),
        pod=pod if pod.requests or pod.share else replace(pod, requests=A_CPU.requests),
        closeness=read_closeness(said),
        run_s=_distribution(said, "run", AN_HOUR),
        limit_factor=_distribution(said, "limitFactor", ONE) if said.values.get("limitFactor") is not None else None,
        users=said.whole("users", 1, least=1, most=1_000_000),
        queues=said.weights("queues"),
    )
    said.value("limitFactor")
    like = said.text("like")
    day.done()
    said.done()
    return recipe, like


def _part(said: Fields, name: str) -> float:
    value = said.number(name)
    if value > 1.0:
        raise Misread((*said.path, name), f"{value:g} is not from 0 to 1")
    return value


def _distribution(said: Fields, name: str, default: Distribution) -> Distribution:
    value, path = said.value(name), (*said.path, name)
    if value is None:
        return default
    if isinstance(value, int | float | str):
        return DrawChoice(values=((_length(value, path), 1.0),))
    entry = Fields(value, path)
    if len(entry.values) != 1:
        raise Misread(path, f"say one of {KINDS}")
    kind, said_of_it = next(iter(entry.values.items()))
    numbers = _numbers(said_of_it, (*path, str(kind)))
    match kind, numbers:
        case "exponential", [mean] if mean > 0:
            return Exponential(mean=mean)
        case "lognormal", [median, sigma] if median > 0:
            return LogNormal(median=median, sigma=sigma)
        case "uniform", [low, high] if low <= high:
            return Uniform(low=low, high=high)
        case "loguniform", [low, high] if 0 < low <= high:
            return LogUniform(low=low, high=high)
        case "values", _ if isinstance(said_of_it, dict) and said_of_it:
            weights = Fields({str(key): one for key, one in said_of_it.items()}, (*path, "values"))
            found = [(_length(key, weights.path), weights.number(str(key))) for key in weights.values]
            if sum(weight for _, weight in found) > 0:
                return DrawChoice(values=tuple(found))
    raise Misread(path, f"{kind} is not as it should be; say one of {KINDS}")


def _numbers(value: object, path: tuple[str | int, ...]) -> list[float]:
    entries = value if isinstance(value, list) else [] if isinstance(value, dict) else [value]
    return [_length(entry, path) for entry in entries]


def _length(value: object, path: tuple[str | int, ...]) -> float:
    """Return a number, or a length of time in seconds."""
    return duration_s(value, path)
