"""A cluster that is supposed to be otherwise: `alteration` (fewer or more nodes), `supposed` (objects that do not exist
yet), `outlook` (two futures side by side), `effects` (their difference in brief)."""
