"""Cost against layers, heads, tokens, corpus and ranks; writes the table of docs/scale.md.

Usage: python benchmarks/scale.py [--repeats N] [--no-write]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ranks import Workers

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"

# A BERT of random weights with the tokenizer of the demo model, on sentences of one length.
SETUP = """
import copy
from dataclasses import replace
from headscope.datasets import Corpus, Sentence
from headscope.extraction.loading import load_encoder, untrained
from headscope.probing.analysis import analyse
demo = load_encoder("demo")
config = copy.deepcopy(demo.config)
config.num_hidden_layers, config.num_attention_heads = {layers}, {heads}
config.hidden_size, config.intermediate_size = 32 * {heads}, 128 * {heads}
encoder = untrained(replace(demo, config=config), 0)
n_words = {tokens} - 2

def read():
    for i in range({corpus} // {tokens}):
        yield Sentence(
            ("the",) * n_words, tuple(range(n_words)), ("dep",) * n_words, ("X",) * n_words,
            str(i), i, i, 1,
        )

corpus = Corpus("made up", "0" * 64, "conllu", "sentence", "gold", "", read, [])
def work():
    analyse(encoder, corpus)
"""


@dataclass(frozen=True)
class Case:
    """What one row is measured on; heads have 32 dimensions each."""

    layers: int = 6
    heads: int = 12
    tokens: int = 32
    corpus: int = 2048
    ranks: int = 1


CASES = (
    Case(),
    Case(layers=3),
    Case(layers=12),
    Case(heads=6),
    Case(heads=24),
    Case(tokens=16),
    Case(tokens=128),
    Case(tokens=512),
    Case(corpus=8192),
    Case(corpus=8192, ranks=2),
)


def row(case: Case, repeats: int) -> str:
    """One line of the table; what differs from the first case stands in bold."""
    sizes = {name: value for name, value in vars(case).items() if name != "ranks"}
    with Workers(SETUP.format(**sizes), case.ranks, ranks=case.ranks > 1) as workers:
        workers.work()  # warms up
        turns = [workers.work() for _ in range(repeats)]
    seconds = statistics.median(seconds for seconds, _ in turns)
    usual = vars(Case())
    shown = [
        f"{value:,}" if value == usual[name] else f"**{value:,}**"
        for name, value in vars(case).items()
    ]
    cost = 1000 * seconds / case.corpus
    return f"| {' | '.join(shown)} | {seconds:.2f} | {cost:.3f} | {turns[-1][1]:.0f} |"


def table(repeats: int) -> list[str]:
    import torch

    return [
        f"{date.today().isoformat()}, Python {platform.python_version()}, torch "
        f"{torch.__version__.partition('+')[0]}, CPU with {os.cpu_count()} cores, one thread a "
        f"rank, float32; medians of {repeats}.",
        "Where others use the machine, single rows can be off by half: read the shape.",
        "",
        "| layers | heads | tokens a sentence | tokens | ranks | seconds | seconds / 1,000 tokens "
        "| peak MiB a rank |",
        "|---|---|---|---|---|---|---|---|",
        *(row(case, repeats) for case in CASES),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-write", action="store_true")
    asked = parser.parse_args()
    text = "\n".join(table(asked.repeats)) + "\n"
    print(text)
    if not asked.no_write:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
