"""Each command is the function `run` of the module of its name: command line in, exit code out."""
