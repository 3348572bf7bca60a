"""Stand-ins for a batch system of one user and one node: a job is a process group, begun at once, where it came from.

Called as sbatch or qsub: submit.  As scancel or qdel: end.  As srun or pbsdsh: run in every task.  As scontrol: note.
The folder of the queue is in QUEUE_STATE: jobs/N/{script,pid}, N.log, requeued.
"""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

STATE = Path(os.environ.get("QUEUE_STATE", ""))  # set by the test; empty where this file is only read


def submit(words: list[str], system: str) -> int:
    env, options = dict(os.environ), []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        options.append(option)
        if option == "-v":
            for pair in re.split(r",(?=[A-Z_]+=)", words.pop(0)):
                name, _, value = pair.partition("=")
                env[name] = value
    text = Path(words[0]).read_text() if words else sys.stdin.read()
    asked = dict(re.findall(r"#SBATCH --([a-z-]+)=(\S+)", text))
    asked |= dict(option[2:].split("=", 1) for option in options if option.startswith("--") and "=" in option)
    number = str(len(list((STATE / "jobs").iterdir())) + 1)
    job = STATE / "jobs" / number
    job.mkdir()
    (job / "script").write_text(text)
    env |= {"SLURM_JOB_ID": number, "SLURM_NTASKS": asked.get("ntasks", "2"), "SLURM_CPUS_PER_TASK": "1"}
    env |= {"PBS_JOBID": number, "PBS_O_WORKDIR": os.getcwd()}
    with (STATE / f"{number}.log").open("ab") as log:
        process = subprocess.Popen(
            ["bash", job / "script", *words[1:]], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    (job / "pid").write_text(str(process.pid))
    print(number if system == "qsub" or "--parsable" in options else f"Submitted batch job {number}")
    return 0


def cancel(words: list[str]) -> int:
    for number in filter(str.isdigit, words):
        with suppress(ProcessLookupError, FileNotFoundError):
            os.killpg(int((STATE / "jobs" / number / "pid").read_text()), signal.SIGTERM)
    return 0


def tasks(words: list[str]) -> int:
    """As many copies as the job has tasks; a signal to this process is one to them."""
    count = next((int(word.split("=")[1]) for word in words if word.startswith("--ntasks=")), 2)
    while words[0].startswith("--"):
        words.pop(0)
    running = [subprocess.Popen(words) for _ in range(count)]
    signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in running])
    return max(task.wait() for task in running)


def main(name: str, words: list[str]) -> int:
    if name in ("sbatch", "qsub"):
        return submit(words, name)
    if name in ("scancel", "qdel"):
        return cancel(words)
    if name == "scontrol":
        with (STATE / "requeued").open("a") as noted:
            noted.write(" ".join(words) + "\n")
        return 0
    return tasks(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
