"""The measures that docs/guide/simulate.md defines.

fairness       the max-min fair part of the cluster for each party (queue or user), and what each party used; dominant
               shares; jobs that were delayed by later submissions
fragmentation  free devices that no job can use; the number of nodes and domains over which gangs were spread; the
               smallest part of the cluster into which the running jobs could have been packed
measure        all measures, by name
"""
