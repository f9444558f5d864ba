"""One cycle: the steps that `decide` names, and what the cycle has decided so far."""
