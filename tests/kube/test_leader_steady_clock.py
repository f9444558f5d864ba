"""The scheduler's time goes on steadily, whatever the clock of its machine is set to."""

from __future__ import annotations

import pytest

from phalanx.kube.leader import SteadyClock


class Machine:
    def __init__(self) -> None:
        self.wall_s, self.monotonic_s = 1e9, 50.0

    def goes_on(self, passed_s: float) -> None:
        self.wall_s += passed_s
        self.monotonic_s += passed_s


def steady(machine: Machine) -> SteadyClock:
    return SteadyClock(lambda: machine.wall_s, lambda: machine.monotonic_s)


def test_it_is_the_machines_time_and_takes_over_small_adjustments() -> None:
    machine = Machine()
    clock = steady(machine)
    machine.goes_on(10.0)
    assert clock() == machine.wall_s
    machine.wall_s += 0.3
    assert clock() == machine.wall_s
    before_s = clock()
    machine.wall_s -= 0.3
    assert clock() == before_s, "never back"


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 1e8])
def test_a_step_is_no_jump_and_is_caught_up_with(step_s: float) -> None:
    machine = Machine()
    clock = steady(machine)
    before_s = clock()
    machine.wall_s += step_s
    assert clock() == pytest.approx(before_s)
    for _ in range(100):
        machine.goes_on(1.0)
        last_s, before_s = before_s, clock()
        assert 0.5 <= before_s - last_s <= 2.0
    machine.goes_on(abs(step_s) * 2.0)
    assert clock() == pytest.approx(machine.wall_s)
