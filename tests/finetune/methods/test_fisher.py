"""Fisher information of a layer whose gradients are known."""

import torch
from torch import nn

from headscope.finetune.methods.fisher import fisher


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.drop = nn.Linear(2, 1, bias=False), nn.Linear(1, 1), nn.Dropout()

    def forward(self, x):
        return {"loss": self.drop(self.body(x)).sum()}


def test_mean_squared_gradients_in_eval_mode():
    model = Net().train()
    batches = [{"x": torch.tensor([[1.0, 2.0]])}, {"x": torch.tensor([[3.0, 0.0]])}]
    found = fisher(model, model.body, batches)
    assert found[model.body.weight].tolist() == [[5.0, 2.0]]
    assert list(found) == [model.body.weight]
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())
