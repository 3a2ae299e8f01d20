"""Several real processes as a launcher would start them."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 240
"""Seconds after which ranks that wait for each other for ever are ended, and the test fails."""

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = (
    "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
    "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def environment(**more):
    """That of this process, where one thread each keeps numbers equal; no rank of anything."""
    kept = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    return {**kept, **own, "TOKENIZERS_PARALLELISM": "false", **more}


def python(*command, cwd, **more):
    """A process of its own."""
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return Ended(ran.returncode, ran.stdout, ran.stderr)


def by(launcher, *command, cwd):
    """The command under a launcher, which has to succeed."""
    ended = python("-m", *launcher, *command, cwd=cwd)
    assert ended.code == 0, ended.err
    return ended


def side_by_side(*command, cwd, size=2, names=("RANK", "WORLD_SIZE")):
    """How each of several processes ended that no launcher watches over."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=cwd,
            env=environment(**place, **dict(zip(names, (str(rank), str(size)), strict=True))),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        texts = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
    return [Ended(p.returncode, *text) for p, text in zip(started, texts, strict=True)]
