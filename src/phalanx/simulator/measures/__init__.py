"""The measures that docs/guide/simulate.md defines.

fairness       the amount that each party got, relative to its fair part; the max-min fair part of each party;
               dominant shares
fragmentation  free devices that no job can use; the numbers of nodes and domains over which gangs were spread; the
               smallest part of the cluster that would have been enough
measure        all measures, by name
"""
