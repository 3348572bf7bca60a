"""Cache of values in a worker process, shared by the tasks of a run.

Any process can make such a value again from the arguments of its tasks. So it may be dropped at any time, and a task
that does not find it says so. It is never modified in place, since a task may run twice.
"""

from typing import Any

_values: dict[str, dict[Any, Any]] = {}


def get(run: str, name: Any) -> Any:
    """The value with this name, None if there is none.

    Examples
    --------
    >>> put("a-run", ("scores", 3), 0.5)
    >>> get("a-run", ("scores", 3)), get("another", 3)
    (0.5, None)
    >>> drop("a-run")
    >>> get("a-run", ("scores", 3)) is None
    True
    """
    return _values.get(run, {}).get(name)


def put(run: str, name: Any, value: Any) -> None:
    """Keep a value under this name; it replaces an older value."""
    _values.setdefault(run, {})[name] = value


def drop(run: str) -> None:
    """Forget the values of a run."""
    _values.pop(run, None)


def drop_all() -> None:
    """Forget the values of all runs."""
    _values.clear()
