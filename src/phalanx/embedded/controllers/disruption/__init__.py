"""PodDisruptionBudgets: `budget` (how many pods may go), `controller`."""
