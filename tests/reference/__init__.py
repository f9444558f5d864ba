"""The rules of deciding (`docs/guide/rules.md`) a second time, as a naive program that judges plans."""
