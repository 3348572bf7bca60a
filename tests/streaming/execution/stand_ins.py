"""Machines of which only the numbers are known, and executors that say what they do."""

from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.machine import Machine


def apart(limit=None, workers=2, threads=1, **more):
    """Some workers on a cluster, whose client has two cores."""
    names = [f"worker {i}" for i in range(workers)]
    limits = {} if limit is None else dict.fromkeys(names, limit)
    return Machine(dict.fromkeys(names, threads), limits, **({"cores": 2} | more))


class Stated(SerialExecutor):
    """States machines, one after the other and the last for ever, whose work this process does."""

    def __init__(self, *machines):
        super().__init__()
        self.machines, self.left_out = list(machines), {}

    def describe(self):
        return self.machines.pop(0) if len(self.machines) > 1 else self.machines[0]

    def leave_out(self, workers):
        self.left_out |= workers


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
