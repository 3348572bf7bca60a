"""Workers in this process that come and go: results come in any order, and what was lost is computed again."""

from random import Random

from dask.local import get_sync

from dkernel.streaming.execution import process_cache
from dkernel.streaming.execution.base import Handle, resolve
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.execution.payload import Payload
from dkernel.streaming.execution.tasks import identity
from dkernel.streaming.machine import Machine
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.repeated_reading import ExactStatistic

WORKERS = {"a": 1, "b": 2, "c": 1}
LOSS = 0.2  # the share of the results, and of the values that others need, that are lost when they are there
AHEAD = 4  # calls that run at a time where results are taken as they come


class Task(Handle):
    """A value on a worker, which is computed when it is needed, and again after it was lost."""

    def __init__(self, function, args, at=None):
        self.function, self.args, self.at, self.values = function, args, at, []


class UnreliableExecutor(SerialExecutor):
    """Draws from a seed which workers there are, whose result comes first, and what is lost.

    Parameters
    ----------
    client : whether the client does what it can do itself
    """

    def __init__(self, seed, client=False):
        super().__init__()
        self.threads, self.slots = WORKERS, sum(WORKERS.values())
        self.random, self.client, self.lost, self.statistics = Random(seed), client, 0, set()

    def compute(self, calls, ahead=(), read_on=()):  # noqa: ARG002 - a worker may have less than it was to have
        self.threads = {worker: WORKERS[worker] for worker in self._some(sorted(WORKERS))}
        self.slots = sum(self.threads.values())
        results = {}
        for i in self.random.sample(range(len(calls)), len(calls)):
            results[i] = self._run(calls[i])
        units = [Task(get_sync, (dict(unit.__dask_graph__()), unit.key), self._place()) for unit in ahead]
        return [results[i] for i in range(len(calls))], units

    def as_they_come(self, calls):
        running = []
        for call in calls:
            running.append(call)
            if len(running) == AHEAD:
                yield self._run(running.pop(self.random.randrange(AHEAD)))
        yield from map(self._run, self.random.sample(running, len(running)))

    def keep(self, value, key):  # noqa: ARG002
        return Task(identity, (value,))

    def leave(self, calls):
        return [Task(call.function, call.args, self._place()) for call in calls]

    def places(self, handles):
        return [self._place() for _ in handles]

    def describe(self):
        return Machine(self.threads)

    def processes(self):
        return self.threads

    def executor_for_local_rows(self, small, large):  # noqa: ARG002
        return ThreadsExecutor(1) if self.client else self

    def _some(self, names):
        return sorted(self.random.sample(names, self.random.randint(1, len(names))))

    def _place(self):
        return self.random.choice([*self.processes(), None])

    def _run(self, call):
        """The result of a call, after those that are lost with all that its worker had kept of the rows."""
        function, args = call.function, resolve(call.args, self._value)
        self.statistics |= statistics_in(args)
        while self.random.random() < LOSS:
            self.lost += 1
            function(*args)
            process_cache.drop_all()
        return _travelled(function(*_travelled(args)))

    def _value(self, handle):
        if not handle.values or self.random.random() < LOSS:
            handle.values = [self._run(handle)]
        return handle.values[0]


def statistics_in(values):
    """The classes of the statistics among these values, and of those that they are made of."""
    found = [value for value in values if isinstance(value, Statistic | ExactStatistic)]
    inner = [part for value in found for part in (*getattr(value, "parts", ()), *vars(value).values())]
    return {type(value) for value in found} | (statistics_in(inner) if inner else set())


def _travelled(value):
    """What comes of a value that is sent to another process."""
    return Payload.of(value).open()
