"""The same architecture with every weight drawn anew."""

import torch

from headscope.extraction.loading import load_encoder, untrained
from tests.extraction.toys import (
    output,
)


class TestUntrained:
    def test_the_same_seed_gives_the_same_weights(self, encoder):
        first, second, other = (untrained(encoder, seed) for seed in (0, 0, 1))
        assert first.info == second.info
        assert first.info.weights_sha256 != other.info.weights_sha256
        assert output(first, ["the"]).equal(output(second, ["the"]))
        assert not output(first, ["the"]).equal(output(other, ["the"]))

    def test_every_matrix_differs_from_the_trained_one(self, encoder):
        fresh = untrained(encoder, 0).model.state_dict()
        for key, trained in encoder.model.state_dict().items():
            assert fresh[key].shape == trained.shape
            assert not fresh[key].equal(trained), key

    def test_it_says_what_it_is(self, encoder):
        fresh = untrained(encoder, 0)
        assert fresh.info.name == f"{encoder.info.name} with random weights"
        assert fresh.info.revision is None
        assert (fresh.notes, fresh.route, fresh.causal) == ((), "function", False)
        assert all(call.module in set(fresh.model.modules()) for call in fresh.sites)
        kept = ("tokenizer", "max_length", "pad_id", "cls_id", "separator_id", "unk_id")
        assert all(getattr(fresh, name) == getattr(encoder, name) for name in kept)

    def test_it_is_in_eval_mode_without_gradients(self, encoder):
        fresh = untrained(encoder, 0).model
        assert not any(part.training for part in fresh.modules())
        assert not any(weight.requires_grad for weight in fresh.parameters())

    def test_random_numbers_of_others_are_left_alone(self, encoder, monkeypatch):
        seeded = []
        monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        del seeded[:]
        untrained(encoder, 0)
        assert torch.rand(3).equal(expected)
        assert seeded == []

    def test_the_given_encoder_is_left_alone(self, saved):
        encoder = load_encoder(saved, device="cpu")
        before = {key: value.clone() for key, value in encoder.model.state_dict().items()}
        info, config = encoder.info, encoder.model.config.to_dict()
        fresh = untrained(encoder, 0)
        assert fresh.model is not encoder.model
        assert fresh.model.config is not encoder.model.config
        assert all(value.equal(before[key]) for key, value in encoder.model.state_dict().items())
        assert (encoder.info, encoder.model.config.to_dict()) == (info, config)

    def test_the_data_type_is_kept(self, saved):
        fresh = untrained(load_encoder(saved, device="cpu", dtype="bfloat16"), 0)
        assert {weight.dtype for weight in fresh.model.parameters()} == {torch.bfloat16}
