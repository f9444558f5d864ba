"""Jobs as they are submitted.

run       a command, as if it were run here
submit    manifests, or a Job made from a command
examples  the examples that come with Phalanx
slurm     Slurm's commands
completion  scripts for shells
complete    what these ask (internal)
"""
