"""What a job asks, from a script's lines and options.

script    a script's #SBATCH lines
optional  options that few jobs have
request   what options ask for
"""
