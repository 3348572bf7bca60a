"""The check that all processes of a run see one folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from dkernel.data.writers.atomic import trouble
from dkernel.errors import RecipeError
from dkernel.execution.base import Call, Executor


def check_shared(executor: Executor, folder: Path, why: str) -> None:
    """Refuse a folder in which a worker does not see what this process writes, or this process what a worker writes.

    Parameters
    ----------
    why : sentence that says what the folder is needed for
    """
    workers = sorted(executor.processes())
    with _token(folder) as token:
        calls = [Call(f"dkernel-{token.name}-{i}", answer, (str(token), i), at) for i, at in enumerate(workers)]
        answers = executor.compute(calls)[0] if calls else []
        blind = [at for i, at in enumerate(workers) if not (answers[i] and _answer(token, i).exists())]
    if blind:
        more = f" and {len(blind) - 1} more" if len(blind) > 1 else ""
        raise RecipeError(
            f"{why}. The worker {blind[0]}{more} does not see what is written to {folder}, or cannot write there. Give "
            "--scratch a folder that the client and all workers share (in Python, start them with TMPDIR set to one)."
        )


def answer(token: str, number: int) -> bool:
    """True if the file is seen here, and another is written beside it; runs on a worker."""
    try:
        if Path(token).exists():
            _answer(Path(token), number).touch()
            return True
    except OSError:
        pass
    return False


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    token = folder / f".shared-{uuid4().hex}"
    try:
        token.touch()
    except OSError as error:
        raise trouble(error, folder) from error
    try:
        yield token
    finally:
        for file in folder.glob(f"{token.name}*"):
            file.unlink(missing_ok=True)


def _answer(token: Path, number: int) -> Path:
    return token.with_name(f"{token.name}-{number}")
