"""`dkernel`, but every worker is stopped when the model is written: python -m tests.faults.asleep WORDS..."""

import os
import signal
import time

from dkernel.cli import main
from dkernel.model import model_file
from tests.faults.preload import folder

save = model_file.save


def save_and_stop(*args, **more):
    digest = save(*args, **more)
    for file in (folder() / "workers").iterdir():
        os.kill(int(file.name), signal.SIGSTOP)
    (folder() / "committed").write_text(str(time.time()))
    return digest


if __name__ == "__main__":
    model_file.save = save_and_stop
    main()
