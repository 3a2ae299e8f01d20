"""Long sequences: surface measures beside a bare sdpa forward, time and memory, in one process.

Usage: python benchmarks/long.py [--tokens N] [--repeats N]

4 layers x 8 heads x 64 with random weights, causal (Llama-shaped) and full (BERT-shaped).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

THREADS = 2


def long_sequences(tokens: int = 8192, repeats: int = 3) -> list[str]:
    """Lines of the benchmark page."""
    rows = []
    for kind in ("causal", "full"):
        call = [sys.executable, __file__, "--measure", kind]
        call += ["--tokens", str(tokens), "--repeats", str(repeats)]
        done = subprocess.run(call, capture_output=True, check=True, text=True)
        bare, seen, bare_peak, seen_peak = map(float, done.stdout.split())
        more, ratio = seen_peak - bare_peak, seen / bare
        rows.append(
            f"| {kind} | {bare:.2f} | {seen:.2f} | {ratio:.2f} | {bare_peak:.0f} | {more:+.0f} |"
        )
    return [
        "## Long sequences",
        "",
        f"One sequence of {tokens:,} tokens through 4 layers x 8 heads x 64, random weights; best",
        f"of {repeats}, surface measures against a bare sdpa forward pass.",
        "",
        "| attention | bare, s | surface, s | ratio | bare peak, MiB | more, MiB |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def model_of(kind: str, tokens: int) -> Any:
    """A calibrated encoder with a tokenizer that is never used."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import AutoModel, BertConfig, LlamaConfig

    from headscope.extraction.calibration import calibrate
    from headscope.extraction.encoder import Encoder
    from headscope.results import ModelInfo

    size = {
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "intermediate_size": 2048,
        "vocab_size": 1000,
        "max_position_embeddings": tokens,
    }
    config = LlamaConfig(**size) if kind == "causal" else BertConfig(**size)
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({str(i): i for i in range(1000)}, unk_token="0"))
    info = ModelInfo(kind, None, "0" * 64, 0, 0, config.model_type, "encoder", "float32")
    body = AutoModel.from_config(config).eval()
    encoder = Encoder(body, config, words, info, tokens, 0, None, 1, 2, None, kind == "full")
    calibrate(encoder)
    return encoder


def batch_of(encoder: Any, tokens: int) -> Any:
    """One sequence of random tokens, each a word."""
    import numpy as np

    from headscope.datasets import Sentence
    from headscope.extraction.batches import collate
    from headscope.extraction.words import Pieces

    ids = np.random.default_rng(0).integers(3, 1000, tokens)
    places, zeros = np.arange(tokens), np.zeros(tokens, dtype=np.int64)
    blank = ("_",) * tokens
    sentence = Sentence(blank, (0,) * tokens, blank, blank, "long", 0, 0, 1)
    pieces = Pieces(ids, zeros, zeros.astype(bool), places, zeros, tokens)
    return collate(encoder, [(sentence, pieces)])


def measure(kind: str, tokens: int, repeats: int) -> None:
    """Prints seconds and peak memory (MiB) of a bare forward pass and of surface measures."""
    import torch

    from headscope.extraction.calibration import observe
    from headscope.extraction.hook import inputs
    from headscope.extraction.observers import Resampling
    from headscope.probing.surface import Surface

    torch.set_num_threads(THREADS)
    encoder = model_of(kind, tokens)
    batch = batch_of(encoder, tokens)

    def bare() -> None:
        with torch.no_grad():
            encoder.model(**inputs(encoder, batch))

    def seen() -> None:
        with observe(encoder, [Surface(encoder, Resampling(0, "ab" * 32))]) as observation:
            observation.forward(batch)

    bare()
    found = []
    for run in (bare, seen):
        # Sets the peak back to what is in use now.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        took = []
        for _ in range(repeats):
            began = time.perf_counter()
            run()
            took.append(time.perf_counter() - began)
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert peak is not None
        found.append((min(took), int(peak[1]) / 1024))
    (bare_time, bare_peak), (seen_time, seen_peak) = found
    print(bare_time, seen_time, bare_peak, seen_peak)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=["causal", "full"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure, asked.tokens, asked.repeats)
    else:
        print("\n".join(long_sequences(asked.tokens, asked.repeats)))
