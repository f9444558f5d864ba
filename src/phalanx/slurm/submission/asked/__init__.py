"""Read the request of a job from the options of a command and the #SBATCH lines of its script.

script    read a script and its #SBATCH lines
forms     check those values of options whose check needs no data of the site
size      read the requested nodes, tasks, CPUs, memory and GPUs
optional  read options that few jobs use
request   build the request of a job from all options
"""
