"""Choose one of the nodes that passed the filters.

Parts, lowest first:

    fragmentation  fragmentation of devices, by typical pods (Weng et al., ATC '23)
    score          the scoring strategies, and the expected pods that some strategies use
    constrained    pods with constraints beyond amounts, placed one by one"""
