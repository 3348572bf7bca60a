"""A store whose library repeats addresses in its errors, in parts, as whole URLs and in their causes."""

from typing import ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class NoCredentialsError(Exception):
    """An error of a library, which knows none of dkernel."""


SECRET = "hunter2"
KINDS = (RuntimeError, OSError, PermissionError, FileNotFoundError, ValueError, NoCredentialsError)
READS = ("info", "ls", "exists", "isdir", "glob", "find", "open", "get_file", "_open")
WRITES = ("put_file", "pipe_file", "cp_file", "rm_file", "rm")


class LeakyFileSystem(MemoryFileSystem):
    """Memory under leaky://, whose paths hold user, password and query; the methods in `fails` raise a `kind`."""

    protocol = "leaky"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    fails: ClassVar = set()
    kind: ClassVar = RuntimeError

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("leaky://", "memory://", 1))

    def unstrip_protocol(self, name):
        return "leaky://" + self._strip_protocol(name).lstrip("/")

    @classmethod
    def complain(cls, method, path):
        """Fail, if the method shall, by an error that another has caused."""
        if method in cls.fails:
            part = str(path).lstrip("/").removeprefix("leaky://")
            alone = SECRET * (SECRET in part)
            try:
                raise KeyError(part)
            except KeyError as cause:
                raise cls.kind(f"{method}: no name {part!r} of leaky://{part}; the key is {alone!r}") from cause


def _complaining(name):
    def method(self, path, *args, **options):
        self.complain(name, args[0] if name == "put_file" else path)
        return getattr(MemoryFileSystem, name)(self, path, *args, **options)

    return method


for _name in (*READS, *WRITES):
    setattr(LeakyFileSystem, _name, _complaining(_name))
fsspec.register_implementation("leaky", LeakyFileSystem, clobber=True)
