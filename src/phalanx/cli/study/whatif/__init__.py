"""A cluster that is supposed to be otherwise: `supposed` (objects that do not exist yet, fewer or more
nodes), `outlook` (two futures side by side), `effects` (their difference in brief)."""
