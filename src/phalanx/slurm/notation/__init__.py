"""Times, host lists, amounts and array specifications as Slurm writes them."""
