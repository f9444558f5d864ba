"""The nouns. Frozen values that cross boundaries, and the one mutable book (`Cluster`) that the loop owns."""
