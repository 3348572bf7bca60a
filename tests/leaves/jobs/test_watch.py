"""`dkernel watch`: a job of another process is followed by its file, to its end, or to its death."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from dkernel.leaves import jobs
from dkernel.leaves.jobs.follow import follow
from tests.cli.conftest import FEATURES, begin
from tests.processes import DKERNEL, environment

RUNNING = {"status": "running", "exit_code": None, "host": "elsewhere", "pid": 1, "started": "then", "updated": "1"}
STATE = {"phase": "pass 1/2", "pass": "1/2", "rows": 500, "total_rows": 1000, "seconds": 2.0,
         "rows_per_second": 250.0, "seconds_left": 2.0, "round": "8/64", "loss": 0.25, "accuracy": 0.875}  # fmt: skip


def write(path, **facts):
    attempt = path.with_suffix(".part")
    attempt.write_text(json.dumps(RUNNING | facts))
    os.replace(attempt, path)


def test_a_job_is_followed_to_its_end_with_its_exit_code(run_to, tmp_path, monkeypatch):
    path = tmp_path / "m.run.json"
    write(path, progress=STATE, dashboard="http://host:8787/status")

    steps = iter([
        {"updated": "2", "progress": STATE | {"phase": "pass 2/2", "pass": "2/2"}},
        {"updated": "3", "status": "failed", "exit_code": 75, "error": "ClusterError: gone", "seconds": {"total": 5.0}},
    ])  # fmt: skip

    def between_two_looks(seconds, sleep=time.sleep):
        if threading.current_thread() is threading.main_thread():
            write(path, **next(steps))
        else:
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", between_two_looks)
    result = run_to("watch", tmp_path / "m", code=75)
    assert result.stderr.splitlines() == [
        "process 1 on elsewhere, since then",
        "dashboard: http://host:8787/status",
        "pass 1/2: 500 of 1,000 rows (50 %), 250 rows/s, round 8/64, loss 0.25, accuracy 87.50 %, 2.0 s left",
    ]
    assert result.stdout == "failed after 5.0 s, exit code 75\nClusterError: gone\n"


def test_a_job_that_is_done_is_told_at_once_and_as_json(run_to, tmp_path):
    write(tmp_path / "m.run.json", status="done", exit_code=0, model_sha256="ab" * 32)
    result = run_to("watch", tmp_path / "m", "--json")
    assert json.loads(result.stdout)["model_sha256"] == "ab" * 32
    assert result.stderr == ""


@pytest.mark.parametrize(
    "facts",
    [
        *({"progress": {name: value for name, value in STATE.items() if name != lost}} for lost in (
            "rows", "phase", "seconds", "total_rows", "rows_per_second")),
        {"progress": STATE | {"rows": "many"}}, {"progress": [1]}, {"seconds": [1], "status": "done"},
        {"seconds": {"total": "long"}, "status": "done"}, {"exit_code": "x", "status": "done"}, {"pid": "one"},
        {"model_sha256": 7, "status": "done"}, {"status": 3},
    ],
)  # fmt: skip
def test_a_damaged_record_is_named(run_to, tmp_path, facts):
    write(tmp_path / "m.run.json", **facts)
    result = run_to("watch", tmp_path / "m", code=65)
    assert "the run record is damaged" in result.stderr


WHOLE = RUNNING | {
    "host": socket.gethostname(),
    "progress": STATE,
    "error": "",
    "seconds": {"total": 1.0},
    "job": {"dead_after": 300.0},
}
FIELDS = (
    [(name,) for name in WHOLE] + [("progress", name) for name in STATE] + [("job", "dead_after"), ("seconds", "total")]
)


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_no_strange_record_hides_others_or_ends_in_a_traceback(run, tmp_path, field, monkeypatch):
    dead_after = jobs.follow.dead_after
    monkeypatch.setattr(jobs.follow, "dead_after", lambda record: 0.0 * dead_after(record))
    write(tmp_path / "good.run.json", status="done", exit_code=0)
    for value in (None, [], [[1]], {}, {"a": []}, "x", "", True, -1, 2**40, 10**400, float("inf"), float("nan")):
        record = json.loads(json.dumps(WHOLE))
        (record[field[0]] if len(field) > 1 else record)[field[-1]] = value
        write(tmp_path / "m.run.json", **record)
        listed = run("watch", tmp_path)
        assert (listed.exit_code, len(listed.stdout.splitlines()), "done" in listed.stdout) == (0, 3, True)
        if field == ("pid",):  # of no job: its process is looked for
            del record["job"]
            write(tmp_path / "m.run.json", **record)
        for command in ("watch", "cancel"):
            said = run(command, tmp_path / "m.run.json")
            assert not (said.exception and "should not happen" in said.stderr), said.output
            assert "Traceback" not in said.output


@pytest.mark.parametrize("content", ["", "no JSON", "[1]", "{}", "[" * 100_000, '{"status": 3}'])
def test_a_record_that_is_none_is_a_line_too(run_to, tmp_path, content):
    write(tmp_path / "good.run.json", status="done", exit_code=0)
    (tmp_path / "m.run.json").write_text(content)
    assert [line.split()[1] for line in run_to("watch", tmp_path).stdout.splitlines()[1:]] == ["damaged", "done"]


@pytest.mark.parametrize("status", ["queued", "running", "waiting"])
def test_a_job_is_dead_when_its_record_says_so(run_to, tmp_path, status):
    for name, age in (("young", 100), ("old", 400)):
        updated = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
        write(tmp_path / f"{name}.run.json", status=status, job={"dead_after": 300.0}, updated=updated)
    write(tmp_path / "no.run.json", status=status, updated=(datetime.now(UTC) - timedelta(seconds=100)).isoformat())
    rows = [json.loads(line) for line in run_to("watch", tmp_path, "--json").stdout.splitlines()]
    found = {os.path.basename(row["job"]): row["status"] for row in rows}
    assert found == {"young": status, "old": "dead", "no": "dead"}


def test_a_wait_for_the_end_of_a_job_is_told_before_it(run, tmp_path):
    """Its workers may all be gone: minutes pass until that is known."""
    write(tmp_path / "m.run.json", job={"dead_after": 0.1})
    done = run("cancel", tmp_path / "m")
    assert done.exit_code == 75
    waits, dead = done.stderr.splitlines()[:2]
    assert "asked to end; without a word of it in 0.1 seconds" in waits
    assert "the job is dead" in dead


def test_silence_is_death(run_to, tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.leaves.jobs.follow.DEAD_AFTER", 1.0)
    write(tmp_path / "m.run.json", progress=STATE)
    result = run_to("watch", tmp_path / "m", code=75)
    assert "dead" in result.stdout
    assert "process 1 on elsewhere has not renewed its record for 1 seconds" in result.stdout
    assert "Run its command again" in result.stdout


def test_a_process_of_this_machine_that_is_gone_is_known_at_once(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    write(tmp_path / "m.run.json", host=socket.gethostname(), pid=process.pid, updated=datetime.now(UTC).isoformat())
    begin, states = time.monotonic(), follow(str(tmp_path / "m.run.json"))
    assert next(states)["status"] == "running"
    with pytest.raises(Exception, match="is gone"):
        next(states)
    assert time.monotonic() - begin < 15


def test_the_record_of_a_folder_that_is_an_output_is_beside_it(run_to, tmp_path):
    (tmp_path / "out").mkdir()
    write(tmp_path / "out.run.json", status="done", exit_code=0)
    assert run_to("watch", tmp_path / "out").stdout.startswith("done after ")


def test_a_real_job_that_is_killed(run_to, data, tmp_path):
    """SIGKILL while it runs: its record says running for ever, and watch says that it is dead."""
    job = begin(["train", data / "train.parquet", "--label", "y", "--out", "m", *FEATURES], tmp_path)
    job.kill()
    job.communicate()
    record = json.loads((tmp_path / "m.run.json").read_text())
    assert (record["status"], record["pid"], record["exit_code"]) == ("running", job.pid, None)
    result = run_to("watch", tmp_path / "m", code=75)
    assert f"process {job.pid} on {socket.gethostname()} is gone" in result.stdout
    assert not (tmp_path / "m").exists()


def test_a_dead_job_has_the_seconds_until_its_last_record(run, tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.leaves.jobs.follow.DEAD_AFTER", 0.1)
    write(tmp_path / "m.run.json", started="2026-01-01T10:00:00.000+00:00", updated="2026-01-01T10:01:30.500+00:00")
    said = run("watch", str(tmp_path / "m.run.json"), "--quiet")
    assert "dead after 90.5 s" in said.stdout


def test_what_a_job_that_starts_says_is_said_once(run_to, tmp_path, monkeypatch):
    path = tmp_path / "m.run.json"
    begun = {"dashboard": "http://host:8787/status", "progress": {}}
    write(path, **begun)
    assert run_to("watch", tmp_path).stdout.split()[-1] == "starting"
    steps = iter([*({**begun, "updated": str(i)} for i in range(2, 9)), {**begun, "updated": "9", "progress": STATE},
                  {**begun, "updated": "10", "status": "done", "exit_code": 0}])  # fmt: skip
    monkeypatch.setattr("dkernel.leaves.jobs.follow.time.sleep", lambda _: write(path, **next(steps)))
    lines = run_to("watch", tmp_path / "m").stderr.splitlines()
    assert lines[1:3] == ["dashboard: http://host:8787/status", "starting"]
    assert [line.partition(":")[0] for line in lines[3:]] == ["pass 1/2"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_stops_watching_is_told_that_the_job_goes_on(number, code, tmp_path):
    write(tmp_path / "m.run.json", progress=STATE)
    given = {"env": environment(), "cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*DKERNEL, "watch", "m"], **given)
    assert process.stderr.readline().startswith("process 1 on elsewhere")
    process.send_signal(number)
    said = process.communicate(timeout=120)
    assert (process.returncode, said[0], said[1].splitlines()[-1]) == (
        code,
        "",
        "dkernel watch: no longer watching; the job goes on",
    )
