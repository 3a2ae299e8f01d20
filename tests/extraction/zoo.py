"""A tiny model of every family in docs/models.md, and what is known of its attention.

`python -m tests.extraction.zoo` writes the table of docs/models.md anew.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import CONFIG_MAPPING, AutoModel

from headscope.extraction.calibration import calibrate
from headscope.extraction.encoder import Encoder
from headscope.extraction.loading import observed_part, start_token
from headscope.results import ModelInfo
from tests.extraction.toys import save
from tests.models import spread

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- families: begin -->\n", "<!-- families: end -->\n"

WIDTH, N_HEADS, N_LAYERS, VOCABULARY = 24, 4, 3, 61
_IDS = {"vocab_size": VOCABULARY, "max_position_embeddings": 40}
_BERT = {
    "hidden_size": WIDTH,
    "num_attention_heads": N_HEADS,
    "num_hidden_layers": N_LAYERS,
    "intermediate_size": 20,
    **_IDS,
}
_SMALL = _BERT | {"embedding_size": 6}
_GROUPED = _BERT | {"num_key_value_heads": 2, "head_dim": 6, "pad_token_id": 0}
_GPT2 = {
    "n_embd": WIDTH,
    "n_head": N_HEADS,
    "n_layer": N_LAYERS,
    "vocab_size": VOCABULARY,
    "n_positions": 40,
}
_BART = {
    "d_model": WIDTH,
    "encoder_layers": N_LAYERS,
    "decoder_layers": 2,
    "encoder_attention_heads": N_HEADS,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "pad_token_id": 1,
    **_IDS,
}
_T5 = {
    "d_model": WIDTH,
    "num_heads": N_HEADS,
    "d_kv": 6,
    "num_layers": N_LAYERS,
    "num_decoder_layers": 2,
    "d_ff": 20,
    "vocab_size": VOCABULARY,
}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_LOCAL_AND_GLOBAL = ["sliding_attention", "full_attention", "sliding_attention"]


@dataclass(frozen=True)
class Kind:
    """A family, or a setting of it that changes its attention.

    Attributes:
        title: as the table has it.
        family: as its config names it.
        size: of its config.
        remark: for the table.
        layers, heads: numbers in its maps, (encoder, decoder) where there are two.
        std: of its random weights; large ones drown rounding of deep norms.
    """

    title: str
    family: str
    size: dict
    remark: str = ""
    layers: tuple = (N_LAYERS,)
    heads: tuple = (N_HEADS,)
    std: float = 0.25
    reads: str = "function"
    equal_lengths: bool = False
    facts: dict = field(default_factory=dict)


_PAIR = {"layers": (N_LAYERS, 2), "heads": (N_HEADS, 2)}
_MAPS = {"reads": "maps"}

KINDS = [
    Kind("BERT (SpanBERT, MT-DNN, Sentence-BERT)", "bert", _BERT),
    Kind("RoBERTa (R3F, SMART checkpoints)", "roberta", _BERT),
    Kind("XLM-RoBERTa", "xlm-roberta", _BERT),
    Kind("CamemBERT", "camembert", _BERT),
    Kind(
        "DistilBERT",
        "distilbert",
        {"dim": WIDTH, "n_heads": N_HEADS, "n_layers": N_LAYERS, "hidden_dim": 20, **_IDS},
    ),
    Kind("ALBERT", "albert", _SMALL, "one module called once a layer"),
    Kind("ELECTRA", "electra", _SMALL),
    Kind("ERNIE", "ernie", _BERT),
    Kind(
        "MobileBERT",
        "mobilebert",
        _SMALL | {"intra_bottleneck_size": 8, "num_feedforward_networks": 1},
        "its trigram input reads the row of [PAD]: equal lengths, unless that row is zero",
        std=0.12,
        equal_lengths=True,
    ),
    Kind(
        "ModernBERT",
        "modernbert",
        _BERT
        | {"num_hidden_layers": 5, "local_attention": 4, "global_attn_every_n_layers": 3}
        | {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")},
        "local and global layers",
        layers=(5,),
    ),
    Kind("EuroBERT", "eurobert", _GROUPED, "grouped queries"),
    Kind("NomicBERT", "nomic_bert", _BERT),
    Kind("ESM", "esm", _BERT | {"pad_token_id": 1, "mask_token_id": 3}),
    Kind("MPNet", "mpnet", _BERT, **_MAPS),
    Kind("DeBERTa", "deberta", _BERT | _RELATIVE, **_MAPS),
    Kind(
        "DeBERTa-v2, DeBERTa-v3",
        "deberta-v2",
        _BERT
        | _RELATIVE
        | {"position_buckets": 4, "position_biased_input": False}
        | {"share_att_key": True, "norm_rel_ebd": "layer_norm"},
        **_MAPS,
    ),
    Kind(
        "XLNet",
        "xlnet",
        {"d_model": WIDTH, "n_head": N_HEADS, "n_layer": N_LAYERS, "d_inner": 20}
        | {"vocab_size": VOCABULARY},
        "content stream; padded on the right, [CLS] where its tokenizer puts it",
        **_MAPS,
    ),
    Kind(
        "Longformer",
        "longformer",
        _BERT | {"attention_window": [4, 4, 4]},
        "windows unfolded to keys; no global tokens, as its bare model has none",
        **_MAPS,
    ),
    Kind(
        "BigBird",
        "big_bird",
        _BERT | {"attention_type": "original_full"},
        "always full attention: maps of its sparse kind are not the attention it uses",
        **_MAPS,
    ),
    Kind(
        "Funnel",
        "funnel",
        {"d_model": WIDTH, "n_head": N_HEADS, "d_head": 6, "d_inner": 20, "block_sizes": [2, 1]}
        | {"num_decoder_layers": 2, "vocab_size": VOCABULARY, "architectures": ["FunnelModel"]},
        "layers with pooled tokens have no values",
        layers=(5,),
        equal_lengths=True,
        facts={"unseen": (2,)},
        **_MAPS,
    ),
    Kind("RoFormer", "roformer", _BERT | {"embedding_size": WIDTH}, **_MAPS),
    Kind(
        "ConvBERT",
        "convbert",
        _SMALL | {"head_ratio": 2, "conv_kernel_size": 3},
        "fewer heads than its config says; the convolution is in no map",
        heads=(2,),
        equal_lengths=True,
        **_MAPS,
    ),
    Kind(
        "SqueezeBERT",
        "squeezebert",
        _BERT
        | {"embedding_size": WIDTH}
        | {f"{name}_groups": 2 for name in ("q", "k", "v", "intermediate", "output")}
        | {"post_attention_groups": 1},
        "the softmax of the scores that it gives",
        **_MAPS,
    ),
    Kind(
        "RemBERT",
        "rembert",
        _BERT | {"input_embedding_size": 6, "output_embedding_size": 6},
        **_MAPS,
    ),
    Kind("Megatron-BERT", "megatron-bert", _BERT, **_MAPS),
    Kind("GPT-2", "gpt2", _GPT2),
    Kind(
        "OPT",
        "opt",
        {"hidden_size": WIDTH, "num_attention_heads": N_HEADS, "num_hidden_layers": N_LAYERS}
        | {"ffn_dim": 20, "word_embed_proj_dim": WIDTH, **_IDS},
    ),
    Kind("GPT-NeoX", "gpt_neox", _BERT),
    Kind("Llama", "llama", _GROUPED, "grouped queries"),
    Kind("Mistral", "mistral", _GROUPED | {"sliding_window": 4}, "sliding window"),
    Kind("Qwen3", "qwen3", _GROUPED, "grouped queries"),
    Kind(
        "Gemma 2",
        "gemma2",
        _GROUPED | {"sliding_window": 4, "query_pre_attn_scalar": 7},
        "soft cap; local and global layers",
    ),
    Kind(
        "Gemma 3",
        "gemma3_text",
        _GROUPED
        | {"sliding_window": 4, "query_pre_attn_scalar": 7}
        | {"layer_types": _LOCAL_AND_GLOBAL},
        "local and global layers",
    ),
    Kind(
        "GPT-OSS",
        "gpt_oss",
        _GROUPED
        | {"sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1}
        | {"layer_types": _LOCAL_AND_GLOBAL},
        "sinks: rows sum to less than 1",
        facts={"has_sinks": True},
    ),
    Kind(
        "BLOOM",
        "bloom",
        {"hidden_size": WIDTH, "n_head": N_HEADS, "n_layer": N_LAYERS, "vocab_size": VOCABULARY},
        **_MAPS,
    ),
    Kind(
        "Falcon (rotary)",
        "falcon",
        {"hidden_size": WIDTH, "num_attention_heads": N_HEADS, "num_hidden_layers": N_LAYERS}
        | {"vocab_size": VOCABULARY, "alibi": False, "new_decoder_architecture": True}
        | {"num_kv_heads": 2},
        "with alibi it is refused: eager attention, which alone gives maps, adds alibi twice",
        **_MAPS,
    ),
    Kind(
        "GPT-Neo",
        "gpt_neo",
        {"hidden_size": WIDTH, "num_heads": N_HEADS, "num_layers": 2, "window_size": 4}
        | {"attention_types": [[["global", "local"], 1]], **_IDS},
        "local and global layers",
        layers=(2,),
        **_MAPS,
    ),
    Kind("BART", "bart", _BART, **_PAIR),
    Kind("mBART", "mbart", _BART, "its target begins with its language", **_PAIR),
    Kind("MarianMT", "marian", _BART | {"decoder_start_token_id": 1}, **_PAIR),
    Kind("Pegasus", "pegasus", _BART, **_PAIR),
    Kind("T5", "t5", _T5, "relative bias in every layer", layers=(N_LAYERS, 2), heads=(4, 4)),
    Kind("mT5", "mt5", _T5, layers=(N_LAYERS, 2), heads=(4, 4)),
    Kind(
        "LED", "led", _BART | {"attention_window": 4}, "windows unfolded to keys", **_PAIR, **_MAPS
    ),
]


def kinds_of_attention(kind):
    """What can be asked of a family: the names that `--attention` takes."""
    if len(kind.layers) == 2:
        return ("encoder", "decoder", "cross")
    return ("encoder",)


CASES = [(kind, attention) for kind in KINDS for attention in kinds_of_attention(kind)]
IDS = [f"{kind.family}-{attention}" for kind, attention in CASES]


def config_of(kind):
    """Its tiny config."""
    return CONFIG_MAPPING[kind.family](**kind.size)


def body_of(kind):
    """Its tiny model with random weights, far from uniform attention."""
    return spread(AutoModel.from_config(config_of(kind)), std=kind.std).eval()


def encoder_of(kind, attention):
    """A calibrated encoder without a tokenizer."""
    config, body = config_of(kind), body_of(kind)
    info = ModelInfo(kind.title, None, "0" * 64, 0, 0, kind.family, attention, "float32")
    pad_id = config.pad_token_id or 0
    encoder = Encoder(
        model=observed_part(body, config, attention),
        config=config,
        tokenizer=None,
        info=info,
        max_length=None,
        pad_id=pad_id,
        start_id=start_token(config),
        cls_id=None,
        separator_id=None,
        unk_id=None,
        uses_type_ids=False,
    )
    calibrate(encoder)
    return encoder


def saved(folder, family):
    """A checkpoint of the family in the folder, with a tokenizer that spells words out."""
    (kind,) = (kind for kind in KINDS if kind.family == family)
    return save(folder, body_of(kind))


def table():
    """The rows of docs/models.md, every cell of which is what calibration finds."""
    lines = [
        "| family | `model_type` | attention | maps are made | shares a batch with | remarks |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        found = [encoder_of(kind, attention) for attention in kinds_of_attention(kind)]
        attention = ", ".join(encoder.info.attention for encoder in found)
        made = "in blocks of rows" if found[0].route == "function" else "whole"
        lengths = "equal lengths" if found[0].equal_lengths else "any length"
        lines.append(
            f"| {kind.title} | `{kind.family}` | {attention} | {made} | {lengths} | {kind.remark} |"
        )
    return "\n".join(lines) + "\n"


def written(page):
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
