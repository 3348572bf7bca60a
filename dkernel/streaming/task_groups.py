"""The group of tasks that the phase of a run belongs to, as Dask's dashboard shows them: dkernel-survey and so on.

Dask names a group by the words of a key up to the first that is none. Reads are `dkernel-read` in every phase, and what
a prediction of a collection computes is `dkernel-predict`.
"""

TASK_GROUPS = ("read", "survey", "choice", "setup", "pass", "polish", "grids", "cells", "score", "predict")

# The first word that the name of a phase holds decides.
_GROUP_WORDS = {
    "survey": "survey",
    "cell": "cells",
    "grid": "grids",
    "choose": "choice",
    "candidate": "choice",
    "rung": "choice",
    "pass": "pass",
    "polish": "polish",
    "score": "score",
    "evaluate": "score",
    "finish": "score",
    "scratch": "read",
}


def group_of(phase: str) -> str:
    """The group of a phase; what prepares the passes, or has no name of its own, is the setup.

    Examples
    --------
    >>> group_of("pass 2/3"), group_of("choose the width of grids"), group_of("prepare"), group_of("")
    ('pass', 'grids', 'setup', '')
    """
    name = next((group for word, group in _GROUP_WORDS.items() if word in phase), "setup")
    return name if phase else ""
