"""Executors that stand for a cluster where none is started."""

from dkernel.execution.cluster import RemoteExecutor
from dkernel.execution.local import SerialExecutor


class Apart(RemoteExecutor, SerialExecutor):
    """Some workers of one thread on a cluster, whose work this process does."""

    def __init__(self, limit=None, workers=2):
        super().__init__()
        self.memory_limit, self.slots, self.threads = limit, workers, {f"worker {i}": 1 for i in range(workers)}

    def processes(self):
        return self.threads
