"""Enumerate the ways through choices that the rules leave open."""

from __future__ import annotations


class Choices:
    """The choices that the rules leave open and that no plan shows. Each run of the judge makes one choice at every
    point. `next_way` changes the last choice that has another value."""

    def __init__(self) -> None:
        self.taken: list[list[int]] = []  # for each choice: the chosen value, and the number of values
        self.at = 0

    def choose(self, options: int) -> int:
        if self.at == len(self.taken):
            self.taken.append([0, options])
        self.at += 1
        return self.taken[self.at - 1][0]

    def next_way(self) -> bool:
        """Change to the next combination of choices. Return False if there is none."""
        while self.taken and self.taken[-1][0] + 1 == self.taken[-1][1]:
            self.taken.pop()
        if self.taken:
            self.taken[-1][0] += 1
        self.at = 0
        return bool(self.taken)
