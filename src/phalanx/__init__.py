"""Phalanx: a batch scheduler. A job starts whole or not at all.

Seven nouns (Job, Queue, Node, Cluster, Event, Plan, Reason) in `phalanx.model`, four verbs (read, fold, decide,
apply) in `phalanx.core` and the worlds. Start reading at `phalanx.loop` and `phalanx.core.decide`.
"""

__version__ = "0.1.0"
