"""The quota charge of a pod, if Kueue's Configuration transforms its requests.

A transformation applies to one resource, its *input*. For a pod that requests the input,


    output = sum over the transformations of input * multiplier * units of the output in one of the input


is added to the pod's own request of the output. The input counts too, unless it is replaced. Outputs may be negative
and then reduce other amounts; a sum is never below 0. Excluded resources do not count, but their outputs do. Amounts
are exact and rounded up for each pod, so half a credit counts as one. Only quota uses these amounts; placement uses the
pods' requests.


Sources: apis/config/v1beta2/configuration_types.go and pkg/workload/workload.go of v0.20.0-devel; of excluded inputs
and multipliers the changelog of 0.20.0 (#15954, #16041).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from phalanx.model.pod import CPU, PODS, Amounts, amounts

_MILLI = 1000  # units of cpu per core


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A transformation of one resource. `replaces`: the input itself does not count. `multiplier`: a resource whose
    requested amount multiplies the outputs; empty if there is none. `outputs`: units of each resource per unit of the
    input (of cpu in cores)."""

    input: str
    replaces: bool = False
    multiplier: str = ""
    outputs: Mapping[str, Fraction] = field(default_factory=dict)


def transformed(
    requests: Amounts, transformations: Iterable[Transformation], excluded: tuple[str, ...] = ()
) -> Amounts:
    """Return the charge of a pod with these requests. `excluded`: prefixes of resources that do not count; the resource
    `pods` always counts."""
    asked = {name: Fraction(value, _MILLI) if name == CPU else Fraction(value) for name, value in requests}
    counted = {name: each for name, each in asked.items() if name == PODS or not name.startswith(excluded)}
    made: dict[str, Fraction] = {}
    for one in transformations:
        if one.input not in asked:
            continue
        base = asked[one.input] * asked.get(one.multiplier, 1)
        for name, units in one.outputs.items():
            made[name] = made.get(name, Fraction()) + base * units
        if one.replaces:
            counted.pop(one.input, None)
    for name, each in made.items():
        counted[name] = counted.get(name, Fraction()) + max(Fraction(), each)
    return amounts({name: ceil(each * _MILLI) if name == CPU else ceil(each) for name, each in counted.items()})
