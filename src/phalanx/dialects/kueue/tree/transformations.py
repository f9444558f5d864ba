"""What a pod counts against quota, where Kueue's Configuration says that it is not what the pod asks for.

A transformation is about one resource, its *input*. Of a pod that asks for so much of it

    output = sum over the transformations of input * multiplier * units of the output in one of the input

counts besides what is asked of the output itself; the input counts too, unless it is replaced. Outputs may be negative,
an allowance: they make others smaller, and a sum never counts less than nothing. Resources that are excluded do not
count, but what is made of them does. Amounts are exact, and each pod's are rounded up, so a half of a credit is one.

Where its pods fit, nothing of this decides.

Sources: apis/config/v1beta2/configuration_types.go and pkg/workload/workload.go of v0.20.0-devel; of excluded inputs
and multipliers the changelog of 0.20.0 (#15954, #16041).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from phalanx.model.pod import CPU, PODS, Amounts, amounts

_MILLI = 1000  # of a core, in which cpu is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """`replaces`: the input itself does not count. `multiplier`: the resource whose amount, where a pod asks for it,
    multiplies the outputs; empty: none. `outputs`: units of each resource in one of the input, of cpu in cores."""

    input: str
    replaces: bool = False
    multiplier: str = ""
    outputs: Mapping[str, Fraction] = field(default_factory=dict)


def transformed(
    requests: Amounts, transformations: Iterable[Transformation], excluded: tuple[str, ...] = ()
) -> Amounts:
    """Return what counts of a pod with these requests. `excluded`: prefixes of resources that do not; pods always
    do."""
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
