"""The measures that docs/guide/simulate.md defines.

due            the max-min fair part of each party
fairness       the amount that each party got, relative to its fair part
dominance      dominant shares
fair_start     delays by jobs that were submitted later
deadline       deadlines, lateness, worth
closeness      the numbers of nodes and domains over which gangs were spread
fragmentation  free devices that no job can use
compaction     the smallest part of the cluster that would have been enough
measure        all measures, by name
"""
