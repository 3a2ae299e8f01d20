"""The decoder input of every family beside an encoder: what its own model makes of labels."""

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM

from headscope.extraction.batches import batches
from headscope.extraction.loading import start_token
from tests.extraction.toys import encoder_of, sentence, template, wordpiece

# Targets end in [SEP], and then in what stands for a language.
TOKENIZER = template(wordpiece(["the", "cat", "."]), "$A [SEP] [MASK]")
START = 2
WIDTH, N_HEADS = 24, 4

_IDS = {"vocab_size": TOKENIZER.get_vocab_size(), "pad_token_id": 0, "bos_token_id": 1}
_BART = {
    "d_model": WIDTH,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": N_HEADS,
    "decoder_attention_heads": N_HEADS,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 40,
    **_IDS,
}
_T5 = {"d_model": WIDTH, "num_heads": N_HEADS, "d_kv": 6, "num_layers": 1, "d_ff": 20, **_IDS}
_GEMMA = {
    "hidden_size": WIDTH,
    "num_attention_heads": N_HEADS,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "num_hidden_layers": 1,
    "intermediate_size": 20,
    **_IDS,
    "bos_token_id": START,
}
_PROPHETNET = {
    "hidden_size": WIDTH,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_encoder_attention_heads": N_HEADS,
    "num_decoder_attention_heads": N_HEADS,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 40,
    **_IDS,
}
_N_IDS = TOKENIZER.get_vocab_size()
_FSMT = {"langs": ["en", "de"], "src_vocab_size": _N_IDS, "tgt_vocab_size": _N_IDS}
FAMILIES = {
    **dict.fromkeys(
        ("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "led", "m2m_100", "marian")
        + ("mbart", "mvp", "nllb-moe", "pegasus", "pegasus_x", "plbart"),
        _BART,
    ),
    **dict.fromkeys(("longt5", "mt5", "switch_transformers", "t5", "umt5"), _T5),
    "fsmt": _BART | _FSMT,
    "prophetnet": _PROPHETNET,
    "t5gemma": {"encoder": _GEMMA, "decoder": _GEMMA, **_IDS},
}
LAST_FIRST = ("fsmt", "mbart", "plbart")


def tiny(family):
    """Its config, which names a token of its own to start with where it can."""
    own = {} if family == "t5gemma" else {"decoder_start_token_id": START}
    return CONFIG_MAPPING[family](**FAMILIES[family], **own)


def given_to_the_decoder(config, labels):
    """What the decoder of the library's model reads when it is given labels."""
    with torch.random.fork_rng():
        model = AutoModelForSeq2SeqLM.from_config(config).eval()
    seen = []
    model.get_decoder().register_forward_pre_hook(
        lambda module, args, named: seen.append(named["input_ids"] if not args else args[0]),
        with_kwargs=True,
    )
    with torch.no_grad():
        model(input_ids=labels, labels=labels)
    return seen[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_decoder_input_is_what_the_model_makes_of_labels(family):
    config = tiny(family)
    toy = encoder_of(TOKENIZER, start_id=start_token(config), attention="decoder")
    (batch,) = batches(toy, [sentence("the cat .")], target="copy")
    expected = given_to_the_decoder(config, batch.input_ids)
    assert batch.target.input_ids.tolist() == expected.tolist()
    last = int(batch.input_ids[0, -1])
    assert int(expected[0, 0]) == (last if family in LAST_FIRST else START)


def test_a_start_that_the_config_does_not_name_is_the_pad_token():
    assert start_token(CONFIG_MAPPING["t5"](**_T5)) == 0
