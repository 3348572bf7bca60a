"""Executors that stand for a cluster where none is started, and one that counts what is read."""

from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.execution.stated import PlannedCluster


class Apart(PlannedCluster):
    """Some workers of one thread on a cluster, whose work this process does."""

    def __init__(self, limit=None, workers=2):
        super().__init__({f"worker {i}": 1 for i in range(workers)}, limit)


class Counted(SerialExecutor):
    """Counts the units that are read and those that are held, and the times that workers would be asked."""

    def __init__(self, slots=1):
        super().__init__()
        self.slots, self.read, self.asked, self.held, self.most = slots, 0, 0, {}, 0

    def compute(self, calls, ahead=()):
        results, units = super().compute(calls, ahead)
        self.asked += 1
        self.read += len(units)
        self.held |= {id(unit): unit for unit in units}
        self.most = max(self.most, len(self.held))
        return results, units

    def release(self, handles):
        for handle in handles:
            self.held.pop(id(handle), None)
