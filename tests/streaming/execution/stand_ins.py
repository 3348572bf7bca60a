"""Executors that stand for a cluster where none is started."""

from dkernel.streaming.execution.stated import PlannedCluster


class Apart(PlannedCluster):
    """Some workers of one thread on a cluster, whose work this process does."""

    def __init__(self, limit=None, workers=2):
        super().__init__({f"worker {i}": 1 for i in range(workers)}, limit)
