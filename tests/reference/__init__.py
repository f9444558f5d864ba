"""A naive program that judges plans by the rules of `docs/guide/rules.md`. It is independent of the core."""
