"""Commands that submit jobs.

run       run a command as a job, and show its output
submit    submit manifests, or a Job made from a command
examples  show and copy the examples that come with Phalanx
slurm     install Slurm's commands
completion  print completion scripts for shells
complete    compute the completions for these scripts (internal)
"""
