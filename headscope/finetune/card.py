"""The model card of a fine-tuned checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from headscope.datasets.files import whole_file


def write_card(folder: Path, result: Mapping[str, Any]) -> None:
    """README.md with the metadata of the hub: data, method, settings, scores, seed."""
    data = ModelCardData(
        base_model=result["start"],
        library_name="transformers",
        tags=["headscope", result["task"], result["method"]],
    )
    training = result["settings"]["training"]
    lines = [
        "---", data.to_yaml(), "---", "",
        f"# {result['start']} fine-tuned on {result['task']} ({result['method']})", "",
        f"Made by headscope {result['settings']['versions']['headscope']}. Numbers are those of "
        "the dev split on which the checkpoint was chosen.", "",
        "| metric | value |", "|---|---|",
        *(
            f"| {name} | {_number(value, result['nulls'].get(name))} |"
            for name, value in result["scores"].items()
        ), "",
        "| split | file | examples | remark |", "|---|---|---|---|",
        *(
            f"| {name} | {one['file']} | {one['n_examples']:,} | {one['note'] or 'whole file'} |"
            for name, one in result["data"].items()
        ), "",
        "| setting | value |", "|---|---|",
        *(f"| {name} | {value} |" for name, value in training.items()),
        *(
            f"| {method}.{name} | {value} |"
            for method, settings in result["settings"]["methods"].items()
            for name, value in settings.items()
        ),
        "",
        *(f"Warning: {warning}" for warning in result["warnings"]),
    ]  # fmt: skip
    with whole_file(folder / "README.md") as file:
        file.write("\n".join(lines).rstrip().encode() + b"\n")


def _number(value: float | None, why_none: str | None) -> str:
    return f"undefined: {why_none}" if value is None else f"{value:.4f}"
