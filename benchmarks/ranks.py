"""Two ranks of one thread each against two independent processes, measured in one run.

Usage: python benchmarks/ranks.py [--data FILE] [--sentences N] [--repeats N]
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Self

ANSWER = """
import re, sys, torch
torch.set_num_threads(1)
{setup}
print("ready", flush=True)
for line in sys.stdin:
    work()
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
    print(peak, flush=True)
"""

SETUP = """
from headscope.datasets import open_corpus
from headscope.extraction.loading import load_encoder
from headscope.probing.analysis import analyse
encoder, corpus = load_encoder("demo"), open_corpus({data!r}, limit={sentences})
def work():
    analyse(encoder, corpus)
"""


class Workers:
    """Processes of one thread that work at the same time, each time they are told to.

    Args:
        setup: code that defines `work()`.
        n: how many processes.
        ranks: whether they share their passes out, or know nothing of each other.
    """

    def __init__(self, setup: str, n: int, *, ranks: bool) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        each = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", ANSWER.format(setup=setup)],
                env={
                    **os.environ,
                    **each,
                    **(place | {"RANK": str(rank), "WORLD_SIZE": str(n)} if ranks else {}),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(n)
        ]
        self.answers()

    def answers(self) -> list[str]:
        """What each process says next."""
        found = [process.stdout.readline().strip() for process in self.processes]
        if not all(found):
            raise SystemExit("a process of the benchmark has failed")
        return found

    def work(self) -> tuple[float, float]:
        """(seconds until the last has done its work, largest peak memory so far in MiB)."""
        start = time.perf_counter()
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        peaks = self.answers()
        return time.perf_counter() - start, max(map(int, peaks)) / 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def two_ranks(data: str, sentences: int, repeats: int = 3) -> list[str]:
    """A section of the page on benchmarks."""
    setup = SETUP.format(data=data, sentences=sentences)
    best = {"one": float("inf"), "apart": float("inf"), "ranks": float("inf")}
    with ExitStack() as stack:
        groups = {
            "one": stack.enter_context(Workers(setup, 1, ranks=False)),
            "apart": stack.enter_context(Workers(setup, 2, ranks=False)),
            "ranks": stack.enter_context(Workers(setup, 2, ranks=True)),
        }
        for turn in range(repeats + 1):  # the first turn warms up
            for name, group in groups.items():
                seconds, _ = group.work()
                best[name] = min(best[name], seconds) if turn else best[name]
    apart, shared = 2 * best["one"] / best["apart"], best["one"] / best["ranks"]
    return [
        "## Ranks",
        "",
        f"Surface and dependency, from file to result, one thread a process, best of {repeats}, in",
        "turn. Two independent processes do the work twice over, as fast as the machine lets them.",
        f"Two ranks reach {shared / apart:.0%} of their rate.",
        "",
        "| what | seconds | work done / that of one process in the same time |",
        "|---|---|---|",
        f"| one process | {best['one']:.2f} | 1.00 |",
        f"| two independent processes, the whole work each | {best['apart']:.2f} | {apart:.2f} |",
        f"| two ranks that share the work | {best['ranks']:.2f} | {shared:.2f} |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default="demo")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    print("\n".join(two_ranks(asked.data, asked.sentences, asked.repeats)))


if __name__ == "__main__":
    main()
