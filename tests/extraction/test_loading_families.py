"""Every family: saved folders, task checkpoints and random weights."""

import pytest
from transformers import (
    AlbertForMaskedLM,
    BertForSequenceClassification,
    CamembertForMaskedLM,
    DistilBertForMaskedLM,
    ElectraForPreTraining,
    ErnieForMaskedLM,
    GPT2LMHeadModel,
    RobertaForTokenClassification,
    XLMRobertaForQuestionAnswering,
)

from headscope.extraction.batches import batches
from headscope.extraction.loading import load_encoder, untrained
from tests.extraction.families import FAMILY, family_config, family_tokenizer
from tests.extraction.toys import (
    output,
    random_model,
    save,
    sentence,
)


@pytest.mark.parametrize("name", FAMILY)
class TestEveryFamily:
    def test_a_saved_folder_loads(self, name, tmp_path):
        config = family_config(name)
        body = random_model(config)
        encoder = load_encoder(save(tmp_path, body, family_tokenizer(name)), device="cpu")
        ours, theirs = encoder.model.state_dict(), body.state_dict()
        assert all(ours[key].equal(theirs[key]) for key in theirs)
        known = FAMILY[name]
        assert (encoder.info.family, encoder.n_layers, encoder.n_heads) == (name, 3, 2)
        assert encoder.max_length == known.max_length
        ids = (encoder.pad_id, encoder.cls_id, encoder.separator_id, encoder.unk_id)
        assert ids == known.ids
        stops = {encoder.tokenizer.id_to_token(i).strip("#Ġ▁") for i in encoder.stop_ids}
        assert stops == {".", ","}

    def test_the_longest_sentence_that_is_let_in_runs(self, name, tmp_path):
        body = random_model(family_config(name))
        encoder = load_encoder(save(tmp_path, body, family_tokenizer(name)), device="cpu")
        n_special = encoder.tokenizer.num_special_tokens_to_add(False)
        n_pieces = len(encoder.tokenizer.encode(["the"], is_pretokenized=True).ids) - n_special
        n_words = (encoder.max_length - n_special) // n_pieces
        found = output(encoder, ["the"] * n_words)
        assert found.isfinite().all()
        assert list(batches(encoder, [sentence(["the"] * (encoder.max_length + 1))])) == []

    def test_a_task_checkpoint_loads_as_its_encoder(self, name, tmp_path):
        make = TASKS[name]
        whole = random_model(family_config(name), make)
        save(tmp_path, whole, family_tokenizer(name))
        encoder = load_encoder(tmp_path, device="cpu")
        body = getattr(whole, whole.base_model_prefix).state_dict()
        ours = encoder.model.state_dict()
        assert {key for key in ours.keys() - body.keys() if not key.startswith("pooler.")} == set()
        assert [key for key in body if key in ours and not ours[key].equal(body[key])] == []

    def test_random_weights_have_the_same_architecture(self, name, tmp_path):
        body = random_model(family_config(name))
        encoder = load_encoder(save(tmp_path, body, family_tokenizer(name)), device="cpu")
        fresh = untrained(encoder, 0)
        shapes = [{k: v.shape for k, v in e.model.state_dict().items()} for e in (encoder, fresh)]
        assert shapes[0] == shapes[1]
        assert output(fresh, ["the"]).shape == output(encoder, ["the"]).shape


TASKS = {
    "albert": AlbertForMaskedLM,
    "bert": BertForSequenceClassification,
    "camembert": CamembertForMaskedLM,
    "distilbert": DistilBertForMaskedLM,
    "electra": ElectraForPreTraining,
    "ernie": ErnieForMaskedLM,
    "gpt2": GPT2LMHeadModel,
    "roberta": RobertaForTokenClassification,
    "xlm-roberta": XLMRobertaForQuestionAnswering,
}


def test_every_family_is_tried():
    assert set(FAMILY) == set(TASKS)


def test_roberta_numbers_positions_from_two(tmp_path):
    config = family_config("roberta", max_position_embeddings=514)
    save(tmp_path, random_model(config), family_tokenizer("roberta"))
    assert load_encoder(tmp_path, device="cpu").max_length == 512
