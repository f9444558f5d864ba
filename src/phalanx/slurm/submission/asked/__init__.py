"""What a job asks, from a script's lines and options.

script    a script's #SBATCH lines
forms     options whose values can be read without the site
size      nodes, tasks, CPUs, memory and GPUs
optional  options that few jobs have
request   what options ask for
"""
