"""What an encoder knows by itself: its full stops, its arguments, whether it reads a target."""

from dataclasses import replace

import pytest

from tests.extraction.toys import (
    byte_level,
    unigram,
    word_ends,
    wordpiece,
)
from tests.extraction.zoo import KINDS, encoder_of


class TestStops:
    @pytest.mark.parametrize(
        ("tokenizer", "stops"),
        [
            (wordpiece([".", ",", "##.", "...", ".,", "##,", "a."]), {".", ",", "##.", "##,"}),
            (byte_level("Ġ.", "Ġ,", "..", "##.", "Ġ.."), {".", ",", "Ġ.", "Ġ,"}),
            (unigram("▁.", "▁,", "...", "▁..", ".a"), {".", ",", "▁.", "▁,"}),
            (unigram("##.", "▁##,"), {".", ","}),
            (wordpiece(["the", "Ġ.", "▁,"]), set()),
            (word_ends("..", ".,", "a."), {".", ",", ".</w>", ",</w>"}),
            (unigram(".</w>", "▁,</w>"), {".", ","}),
        ],
        ids=[
            "wordpiece",
            "byte-level",
            "sentencepiece",
            "real hashes",
            "real marks",
            "word ends",
            "real ends",
        ],
    )
    def test_only_pieces_whose_text_is_exactly_a_stop(self, encoder, tokenizer, stops):
        found = replace(encoder, tokenizer=tokenizer).stop_ids
        assert {tokenizer.id_to_token(i) for i in found} == stops


class TestFacts:
    def test_arguments_of_the_model(self, encoder):
        assert {"input_ids", "attention_mask"} <= encoder.takes
        assert "decoder_input_ids" not in encoder.takes

    @pytest.mark.parametrize(("attention", "reads"), [("encoder", False), ("decoder", True),
                                                      ("cross", True)])  # fmt: skip
    def test_only_decoders_beside_an_encoder_read_a_target(self, attention, reads):
        (bart,) = (kind for kind in KINDS if kind.family == "bart")
        assert encoder_of(bart, attention).has_target == reads
