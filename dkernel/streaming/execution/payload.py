"""Pickled values that Dask sends as bytes and never unpickles."""

import pickle
from typing import Any

import cloudpickle


class Payload:
    """A pickled value: the scheduler passes it on as bytes, and a worker unpickles it after it was prepared.

    Parameters
    ----------
    header : the pickle
    buffers : buffers of its arrays, which are not copied into the pickle
    """

    def __init__(self, header: bytes, buffers: list[Any]) -> None:
        self.header, self.buffers = header, buffers

    @classmethod
    def of(cls, value: Any) -> "Payload":
        """The payload with this value.

        Examples
        --------
        >>> Payload.of({"a": 1}).open()
        {'a': 1}
        """
        buffers: list[Any] = []
        return cls(cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append), buffers)

    @property
    def nbytes(self) -> int:
        """Bytes that are sent."""
        return len(self.header) + sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def open(self) -> Any:
        """Unpickle the value; each call makes a new one."""
        return pickle.loads(self.header, buffers=self.buffers)

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = pickle.PickleBuffer if protocol >= 5 else bytes  # older protocols carry no buffers
        return type(self), (self.header, [made(buffer) for buffer in self.buffers])
