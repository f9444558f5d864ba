"""The queues as a tree, with the charges of jobs to each queue.

Parts, lowest first:

    rules      the settings that hold for the jobs of a queue: its own and those of the queues above
    quota      guarantees and limits of a queue, the charges of jobs, and all that is charged to a queue
    branch     a queue's place in the tree, with its rules and its charges
    submitted  which submitted jobs count against limits on submissions
    tree       all branches, and the capacity that they share
"""
