"""A job as Slurm's commands see it."""
