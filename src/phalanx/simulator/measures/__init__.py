"""The measures that docs/guide/simulate.md defines.

due            each party's max-min fair part
fairness       what each party got of what was due to it
dominance      dominant shares
fair_start     delays by jobs that came later
deadline       deadlines, lateness, worth
closeness      over how many nodes and domains gangs lay
fragmentation  free devices that no job can use
compaction     the smallest part of the cluster that would have been enough
measure        all measures, by name
"""
