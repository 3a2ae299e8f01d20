"""Which subword piece belongs to which word, and attention between words.

The given word list decides what a word is: never a tokenizer's own idea of it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor

from headscope.errors import unknown

Rows = Literal["mean", "first"]
"""How the rows of a word's pieces become the word's row."""

NO_WORD = -1
"""Stands for "belongs to no word" in `Pieces.word_of`: special tokens and padding."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """One sentence, or pair of texts, as the model sees it.

    Attributes:
        ids, type_ids: [T] token ids and segment ids.
        special: [T] True where the tokenizer's template put a special token. Text that merely
            looks like one, such as a word "[SEP]", is not special.
        word_of: [T] 0-based word of each piece, `NO_WORD` for special tokens; never falls.
        segment_of: [T] 0 for pieces of the first text, 1 of the second, `NO_WORD` for special
            tokens; the model may be given other segment ids, or none.
        n_words: number of words, those without a piece included.
        special_names: text of the special tokens, in order.
    """

    ids: Ints
    type_ids: Ints
    special: npt.NDArray[np.bool_]
    word_of: Ints
    segment_of: Ints
    n_words: int
    special_names: tuple[str, ...] = ()

    @property
    def has_piece(self) -> npt.NDArray[np.bool_]:
        """[W] False for words that the tokenizer drops altogether, such as a lone soft hyphen."""
        present = np.zeros(self.n_words, dtype=bool)
        present[self.word_of[self.word_of != NO_WORD]] = True
        return present


class Aligner:
    """Cuts sentences into pieces and says which word each piece belongs to.

    Word ids of the tokenizer are taken where they pass the self-checks, character offsets of the
    sentence joined by spaces where they do not; a sentence on which both fail is given up.

    Args:
        tokenizer: with truncation and padding switched off.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Probes once whether words given one by one are cut as in running text."""
        self.tokenizer = tokenizer
        self.by_offsets = not _splits_words_alike(tokenizer)

    def align(
        self, sentences: Sequence[Sequence[str]], n_first: Sequence[int | None] | None = None
    ) -> list[Pieces | None]:
        """Pieces of each sentence; None where no alignment passes its self-checks.

        Args:
            sentences: their words.
            n_first: for each, how many of the words are the first text of a pair, which is encoded
                as a pair; None for a single text, and where there are single texts only.
        """
        texts = [
            _texts(words, n)
            for words, n in zip(sentences, n_first or [None] * len(sentences), strict=True)
        ]
        if self.by_offsets:
            return [self._from_offsets(parts) for parts in texts]
        encodings = self.tokenizer.encode_batch(
            [parts[0] if len(parts) == 1 else tuple(parts) for parts in texts],
            is_pretokenized=True,
        )
        return [
            self._from_word_ids(parts, encoding) or self._from_offsets(parts)
            for parts, encoding in zip(texts, encodings, strict=True)
        ]

    def _from_word_ids(self, texts: Sequence[list[str]], encoding: Encoding) -> Pieces | None:
        word_of = [NO_WORD if word is None else word for word in encoding.word_ids]
        segment_of = _segments(texts, encoding)
        # The words of a second text are numbered anew.
        shifted = np.array(word_of, dtype=np.int64) + (segment_of == 1) * len(texts[0])
        return self._checked(texts, encoding, shifted, segment_of)

    def _from_offsets(self, texts: Sequence[list[str]]) -> Pieces | None:
        first, *second = (" ".join(words) for words in texts)
        encoding = self.tokenizer.encode(first, second[0] if second else None)
        segment_of = _segments(texts, encoding)
        word_of = np.full(len(segment_of), NO_WORD, dtype=np.int64)
        # Each look at a field of an encoding copies all of it.
        offsets = encoding.offsets
        n_before = 0
        for segment, words in enumerate(texts):
            at = np.flatnonzero(segment_of == segment)
            words_at = self._words_at([offsets[index] for index in at], words)
            if words_at is None:
                return None
            word_of[at] = words_at + n_before
            n_before += len(words)
        return self._checked(texts, encoding, word_of, segment_of)

    def _words_at(self, spans: Sequence[tuple[int, int]], words: Sequence[str]) -> Ints | None:
        """The word of each piece of one text, by the characters that it covers."""
        text = " ".join(words)
        lengths = np.array([len(word) for word in words], dtype=np.int64)
        starts = np.cumsum(lengths + 1) - lengths - 1
        word_of = np.empty(len(spans), dtype=np.int64)
        covered = np.zeros(len(text), dtype=bool)
        spaces = set((starts - 1).tolist())
        for index, (start, end) in enumerate(spans):
            # A piece begins with the space before its word, or is that space alone: the word is
            # the one that holds the first character that is not the joining space.
            while start < end and start in spaces:
                start += 1
            word_of[index] = int(np.searchsorted(starts, start, side="right")) - 1
            if max(end, start) > starts[word_of[index]] + lengths[word_of[index]]:
                return None
            covered[start:end] = True
        return word_of if self._nothing_lost(text, starts, lengths, covered) else None

    def _nothing_lost(
        self, text: str, starts: Ints, lengths: Ints, covered: npt.NDArray[np.bool_]
    ) -> bool:
        """Whether every stretch of a word that no piece covers is one that the tokenizer drops."""
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            bare = ~covered[start : start + length]
            word = text[start : start + length]
            at = np.flatnonzero(bare).tolist()
            lost = "".join(word[i] for i in at if not _composed(word, bare, i))
            if lost and self._has_pieces(lost):
                return False
        return True

    def _checked(
        self, texts: Sequence[list[str]], encoding: Encoding, word_of: Ints, segment_of: Ints
    ) -> Pieces | None:
        special = segment_of == NO_WORD
        words = [word for part in texts for word in part]
        of_words = word_of[~special]
        word_of[special] = NO_WORD
        if (of_words < 0).any() or (of_words >= len(words)).any() or (np.diff(of_words) < 0).any():
            return None
        if ((of_words >= len(texts[0])) != (segment_of[~special] == 1)).any():
            return None
        pieces = Pieces(
            ids=np.array(encoding.ids, dtype=np.int64),
            type_ids=np.array(encoding.type_ids, dtype=np.int64),
            special=special,
            word_of=word_of,
            segment_of=segment_of,
            n_words=len(words),
            special_names=tuple(encoding.tokens[i] for i in np.flatnonzero(special)),
        )
        # Word ids that are all 0, say, leave words without a piece that do have some on their own.
        missing = np.flatnonzero(~pieces.has_piece)
        if any(self._has_pieces(words[int(word)]) for word in missing):
            return None
        return pieces

    def _has_pieces(self, word: str) -> bool:
        encoding = self.tokenizer.encode([word], is_pretokenized=True, add_special_tokens=False)
        return bool(encoding.ids)


def _texts(words: Sequence[str], n_first: int | None) -> list[list[str]]:
    return [list(words)] if n_first is None else [list(words[:n_first]), list(words[n_first:])]


def _segments(texts: Sequence[list[str]], encoding: Encoding) -> Ints:
    """[T] which text each piece is of, `NO_WORD` for the special tokens of the template."""
    special = np.array(encoding.special_tokens_mask, dtype=bool)
    segment_of = np.where(special, NO_WORD, 0)
    if len(texts) > 1:
        second = np.array([sequence == 1 for sequence in encoding.sequence_ids])
        segment_of[second & ~special] = 1
    return segment_of


def _composed(word: str, bare: npt.NDArray[np.bool_], index: int) -> bool:
    """Whether a character is white space, or one with the covered character before it (NFC).

    Offsets of a composed letter name its first character only: "e" of "e" + combining acute.
    """
    before = np.flatnonzero(~bare[:index])
    letter = word[before[-1] : index + 1] if len(before) else ""
    return word[index].isspace() or len(unicodedata.normalize("NFC", letter)) < len(letter)


def _splits_words_alike(tokenizer: Tokenizer) -> bool:
    """Whether words given one by one get the pieces that they have in running text.

    Some tokenizers mark word boundaries only where the text has spaces; given word by word they
    would glue the sentence together.
    """
    words = ["one", "two", "one"]
    given = tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
    running = tokenizer.encode(" ".join(words), add_special_tokens=False)
    return bool(given.ids == running.ids)


class Merger:
    """Turns attention between pieces into attention between words, for one batch.

    Args:
        word_of: [B, T] word of each piece, `NO_WORD` for special tokens and padding.
        n_words: W, the width of the word axis; sentences with fewer words end in missing words.
        rows: `mean` over a word's pieces, or the row of the `first` one.
        columns: `word_of` and W of the keys, where they are of another text than the queries.

    Attributes:
        missing: [B, W] True for words without a piece; their rows and columns hold no attention.
    """

    def __init__(
        self,
        word_of: Tensor,
        n_words: int,
        rows: Rows = "mean",
        columns: tuple[Tensor, int] | None = None,
    ) -> None:
        """Notes the matrix that sums columns, and which words' rows are means."""
        if rows not in get_args(Rows):
            raise unknown("rows", rows, get_args(Rows))
        pieces = _membership(word_of, n_words)
        counts = pieces.sum(2)
        self.missing = counts == 0
        self._missing = self.missing.nonzero(as_tuple=True)
        attended = pieces if columns is None else _membership(*columns)
        self._columns = attended.transpose(1, 2).float()
        self._sentences = torch.arange(len(word_of), device=word_of.device).unsqueeze(1)
        self._first = pieces.int().argmax(2)
        split = (counts > 1) & (rows == "mean")
        self._split = split.nonzero(as_tuple=True)
        number = split.flatten().cumsum(0).view(counts.shape) - 1
        sentence, word, self._piece = (pieces & split.unsqueeze(2)).nonzero(as_tuple=True)
        self._piece_of, self._piece_sentence = number[sentence, word], sentence
        self._n_pieces = counts[self._split].view(-1, 1, 1)

    def merge(self, probs: Tensor) -> Tensor:
        """[B, H, T, K] attention between pieces -> [B, H, W, V] between words, of the same type.

        Columns are summed over the pieces of the word attended to; rows as `rows` says. Means are
        sums in float64, divided last: words that get equal attention get equal numbers, whatever
        the number of their pieces.
        """
        n_batch, n_heads, n_rows, n_keys = probs.shape
        summed = probs.reshape(n_batch, -1, n_keys) @ self._columns.to(probs.dtype)
        by_query = summed.view(n_batch, n_heads, n_rows, -1).transpose(1, 2)
        merged = by_query[self._sentences, self._first]
        if len(self._piece):
            mean = merged.new_zeros((len(self._n_pieces), *merged.shape[2:]), dtype=torch.float64)
            pieces = by_query[self._piece_sentence, self._piece].double()
            mean.index_add_(0, self._piece_of, pieces).div_(self._n_pieces)
            merged[self._split] = mean.to(probs.dtype)
        merged[self._missing] = 0.0
        return merged.transpose(1, 2)


def _membership(word_of: Tensor, n_words: int) -> Tensor:
    """[B, W, T] whether a piece is of a word."""
    return word_of.unsqueeze(1) == torch.arange(n_words, device=word_of.device).view(1, -1, 1)
