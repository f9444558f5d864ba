"""The queues as a tree, with the charges of jobs to each queue.

Parts, lowest first:

    rules      the settings that apply to the jobs of a queue: the queue's own settings and those of the queues above
    quota      the guarantees and limits of a queue, the charge of a job, and the usage of a queue
    branch     a queue's place in the tree, with its rules and its charges
    bounds     the upper bounds on charges to a queue, and the amounts that they still admit
    submitted  which submitted jobs count against limits on submissions
    tree       all branches, and the capacity that they share
"""
