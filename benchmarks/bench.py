"""Time and memory of the analyses, as ratios measured in one run; writes docs/benchmarks.md.

Usage: python benchmarks/bench.py [--data FILE] [--sentences N] [--repeats N] [--no-write]

DATA is the EWT dev set where it is at hand (HEADSCOPE_SHARED, or a folder `shared` beside the
repository), else the bundled sample; the page says which.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from long import long_sequences
from ranks import two_ranks

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default=default_data())
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-write", action="store_true")
    asked = parser.parse_args()
    lines = [
        *heading(asked),
        *speed(asked),
        "",
        *long_sequences(),
        "",
        *two_ranks(asked.data, asked.sentences),
        "",
        *memory(asked),
        "",
        *recording(asked),
        "",
        *start_up(asked),
    ]
    print("\n".join(lines))
    if not asked.no_write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"\nwrote {PAGE.relative_to(ROOT)}")


def default_data() -> str:
    shared = Path(os.environ.get("HEADSCOPE_SHARED") or ROOT.parent / "shared")
    ewt = shared / "data" / "ud-english-ewt" / "en_ewt-ud-dev.conllu"
    return str(ewt) if ewt.is_file() else "demo"


def heading(asked: argparse.Namespace) -> list[str]:
    import torch
    import transformers

    return [
        "# Benchmarks",
        "",
        "Written by `make bench`; every ratio is of medians measured in turn in one run. Shared",
        "machines are noisy: read the ratios, not the seconds.",
        "",
        f"- {date.today().isoformat()}, Python {platform.python_version()}, torch "
        f"{torch.__version__.partition('+')[0]}, transformers {transformers.__version__}, CPU, "
        f"{THREADS} threads, float32",
        "- model: `demo` (all-MiniLM-L6-v2, 6 layers x 12 heads)",
        f"- data: `{Path(asked.data).name}`, first {asked.sentences:,} sentences",
        "",
    ]


BARE = "bare sdpa forward, same batches"
USUAL = "eager forward with output_attentions, one sentence at a time"


def contenders(asked: argparse.Namespace) -> dict[str, Callable[[], object]]:
    import torch

    from headscope.datasets import open_corpus
    from headscope.extraction.batches import batches
    from headscope.extraction.calibration import observe
    from headscope.extraction.hook import attention_set_to, inputs
    from headscope.extraction.loading import load_encoder
    from headscope.extraction.observers import Resampling
    from headscope.probing.analysis import analyse
    from headscope.probing.dependency import Dependency
    from headscope.probing.surface import Surface

    torch.set_num_threads(THREADS)
    encoder = load_encoder("demo")
    corpus = open_corpus(asked.data, limit=asked.sentences)
    made = list(batches(encoder, corpus.read()))
    singles = list(batches(encoder, corpus.read(), batch_tokens=1))

    def forward(attention: str, over: list, **more: bool) -> Callable[[], None]:
        def passes() -> None:
            with torch.no_grad(), attention_set_to(encoder.model, attention):
                for batch in over:
                    encoder.model(**inputs(encoder, batch), **more)

        return passes

    def headscope(*kinds: type[Surface] | type[Dependency]) -> Callable[[], None]:
        def passes() -> None:
            resampling = Resampling(0, corpus.sha256)
            observers = [kind(encoder, resampling) for kind in kinds]
            with observe(encoder, observers) as observation:
                for batch in made:
                    observation.forward(batch)
            for observer in observers:
                observer.result()

        return passes

    return {
        BARE: forward("sdpa", made),
        "headscope: nothing measured, same batches": headscope(),
        "headscope: surface, same batches": headscope(Surface),
        "headscope: dependency, same batches": headscope(Dependency),
        "headscope: surface + dependency, same batches": headscope(Surface, Dependency),
        "headscope: surface + dependency, from file to result": lambda: analyse(encoder, corpus),
        USUAL: forward("eager", singles, output_attentions=True),
    }


def medians(commands: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, run in turn; the first turn warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeats + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            command()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def speed(asked: argparse.Namespace) -> list[str]:
    times = medians(contenders(asked), asked.repeats)
    bare, usual = times[BARE], times[USUAL]
    rows = [
        f"| {name} | {median:.2f} | {median / bare:.2f} | {median / usual:.2f} |"
        for name, median in times.items()
    ]
    return [
        "## Speed",
        "",
        f"Medians of {asked.repeats}. headscope's times include intervals and held-out choices,",
        "the last of its rows reading and tokenizing too. Its pass stops after the last layer's",
        "attention, which is why it can take less time than a forward pass.",
        "",
        "| what | seconds | / bare sdpa | / the usual way |",
        "|---|---|---|---|",
        *rows,
    ]


MEASURE_MEMORY = """
import dataclasses, re, torch
from headscope.datasets import open_corpus
from headscope.extraction.batches import batches
from headscope.extraction.loading import load_encoder
from headscope.extraction.hook import attention_set_to, inputs
from headscope.probing.analysis import analyse
torch.set_num_threads({threads})
corpus = open_corpus({data!r}, limit=200)
once = list(corpus.read())

def read():
    for turn in range({times}):
        for sentence in once:
            yield dataclasses.replace(
                sentence,
                ordinal=sentence.ordinal + turn * len(once),
                unit=sentence.unit + turn * (once[-1].unit + 1),
            )

encoder = load_encoder("demo")
if {bare}:
    with torch.no_grad(), attention_set_to(encoder.model, "sdpa"):
        for batch in batches(encoder, read()):
            encoder.model(**inputs(encoder, batch))
else:
    analyse(encoder, dataclasses.replace(corpus, read=read))
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def peak(data: str, times: int, *, bare: bool = False, exact: bool = False) -> float:
    """Median KiB of three processes; `exact` has the C library give back all that is freed."""
    code = MEASURE_MEMORY.format(threads=THREADS, data=data, times=times, bare=bare)
    env = {**os.environ, **({"MALLOC_MMAP_THRESHOLD_": str(2**20)} if exact else {})}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=env)
        for _ in range(3)
    ]
    return statistics.median(int(run.stdout) for run in runs)


def memory(asked: argparse.Namespace) -> list[str]:
    rows = []
    for name, how in {
        "bare sdpa forward": {"bare": True},
        "headscope: surface + dependency": {},
        "likewise, freed memory given back at once": {"exact": True},
    }.items():
        one, ten = (peak(asked.data, times, **how) for times in (1, 10))
        growth = (ten - one) / (9 * 200)
        rows.append(
            f"| {name} | {one / 1024:.0f} | {ten / 1024:.0f} | {ten / one:.3f} | {growth:.1f} |"
        )
    return [
        "## Memory",
        "",
        "Peak resident memory, medians of three processes. In any forward pass the C library keeps",
        "freed memory, the more the more shapes of batches it has met, up to a bound; the last row",
        "(`MALLOC_MMAP_THRESHOLD_=1048576`, which is slower) shows what is in use.",
        "",
        "| what | 200 sentences, MiB | ten times, MiB | ratio | KiB a sentence more |",
        "|---|---|---|---|---|",
        *rows,
    ]


READ_LAYER = """
import re, sys
from pathlib import Path
from headscope.extraction.record.reading import Record
record = Record(Path(sys.argv[1]))
total = sum(float(maps.sum()) for _, maps in record.layer(2))
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def copied(record: Path) -> None:
    """Every file of a record once more, each on disk before the next."""
    for path in sorted(record.glob("*.safetensors")):
        with path.with_suffix(".copy").open("wb") as file:
            file.write(path.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".copy").unlink()


def recording(asked: argparse.Namespace) -> list[str]:
    """Writing a record beside the pass without it; memory to read one layer of 6 and of 12."""
    import torch
    from transformers import AutoModel

    from headscope.datasets import open_corpus
    from headscope.extraction.checkpoint import locate
    from headscope.extraction.loading import load_encoder
    from headscope.extraction.record.writing import record
    from headscope.extraction.run import run

    torch.set_num_threads(THREADS)
    encoder = load_encoder("demo")
    corpus = open_corpus(asked.data, limit=asked.sentences)
    without, written = "headscope: nothing measured, from file", "headscope record"
    with TemporaryDirectory() as place:
        folder, turns = Path(place), count()
        times = medians(
            {
                without: lambda: run(encoder, corpus, []),
                written: lambda: record(encoder, corpus, folder / f"turn {next(turns)}"),
                "its bytes alone, copied to the same disk": lambda: copied(folder / "turn 0"),
            },
            asked.repeats,
        )
        deep = shutil.copytree(locate("demo").place, folder / "deep")
        encoder.config.num_hidden_layers = 12
        AutoModel.from_config(encoder.config).save_pretrained(deep)
        record(deep, corpus, folder / "12")
        peaks, sizes = [], []
        for name in ("turn 0", "12"):
            call = [sys.executable, "-c", READ_LAYER, str(folder / name)]
            done = subprocess.run(call, capture_output=True, check=True)
            peaks.append(int(done.stdout) / 1024)
            sizes.append(sum(path.stat().st_size for path in (folder / name).iterdir()) / 2**20)
    return [
        "## Record",
        "",
        "| what | seconds | ratio |",
        "|---|---|---|",
        *(f"| {name} | {took:.2f} | {took / times[without]:.2f} |" for name, took in times.items()),
        "",
        "| reading one layer, every sentence | record, MiB | peak memory, MiB |",
        "|---|---|---|",
        f"| of 6 layers | {sizes[0]:.0f} | {peaks[0]:.0f} |",
        f"| of 12 layers | {sizes[1]:.0f} | {peaks[1]:.0f} |",
    ]


def start_up(asked: argparse.Namespace) -> list[str]:
    def call(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, capture_output=True, check=True)

    bare = 'python -c "import torch"'
    times = medians(
        {
            bare: call(sys.executable, "-c", "import torch"),
            "headscope --help": call(str(Path(sys.executable).parent / "headscope"), "--help"),
        },
        max(asked.repeats, 5),
    )
    return [
        "## Start",
        "",
        "| what | seconds | ratio |",
        "|---|---|---|",
        *(f"| `{n}` | {median:.2f} | {median / times[bare]:.2f} |" for n, median in times.items()),
    ]


if __name__ == "__main__":
    main()
