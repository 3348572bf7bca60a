"""`dkernel`, but every worker is stopped when the model is written: python -m tests.faults.asleep WORDS..."""

import os
import signal
import time

from dkernel import modelfile
from dkernel.cli import main
from tests.faults.preload import folder

save = modelfile.save


def save_and_stop(*args, **more):
    digest = save(*args, **more)
    for file in (folder() / "workers").iterdir():
        os.kill(int(file.name), signal.SIGSTOP)
    (folder() / "committed").write_text(str(time.time()))
    return digest


if __name__ == "__main__":
    modelfile.save = save_and_stop
    main()
