"""Examples as a model takes them: ids, masks, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset
from transformers import DataCollatorWithPadding

from headscope.datasets.examples import Example
from headscope.datasets.tasks import Task


class Encoded(Dataset[dict[str, Any]]):
    """Examples with their ids, cut to a length, the longer text of a pair first.

    Args:
        task: decides the type of labels.
        examples: labelled or not.
        tokenizer: of the library.
        max_length: tokens, special ones included.

    Attributes:
        n_cut: examples that lost tokens.
        n_tokens: of all examples together.
    """

    def __init__(
        self, task: Task, examples: Sequence[Example], tokenizer: Any, max_length: int
    ) -> None:
        """Reads every example once."""
        texts = [example.text for example in examples]
        pairs = [example.text_pair for example in examples]
        both = (texts, pairs) if examples and pairs[0] is not None else (texts,)
        whole = tokenizer(*both, truncation=False, verbose=False)["input_ids"]
        found = tokenizer(*both, truncation="longest_first", max_length=max_length)
        number = float if task.kind == "regression" else int
        self.items: list[dict[str, Any]] = [
            {key: values[place] for key, values in found.items()}
            | ({} if example.label is None else {"labels": number(example.label)})
            for place, example in enumerate(examples)
        ]
        self.n_cut = sum(len(ids) > max_length for ids in whole)
        self.n_tokens = sum(len(item["input_ids"]) for item in self.items)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.items)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """One example, without padding."""
        return self.items[place]


def collator(tokenizer: Any, multiple: int | None = None) -> DataCollatorWithPadding:
    """Pads a batch on the right to its longest example, or to a multiple of so many tokens."""
    return DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple)
