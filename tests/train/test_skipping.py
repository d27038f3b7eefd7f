"""A step that is not finite changes nothing: fused optimizers decide it on the device."""

import pytest
import torch
from torch import nn

from train.fit.module import SkippedSteps, TrainingDiverged

OPTIMIZERS = {
    "fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "plain": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def steps(kind, finite, *, patience=9):
    """Weights and state after steps whose gradients are finite or not; the counter."""
    torch.manual_seed(0)
    model = nn.Linear(7, 5)
    parameters = list(model.parameters())
    optimizer, counter = OPTIMIZERS[kind](parameters), SkippedSteps(patience=patience)
    generator = torch.Generator().manual_seed(1)
    for step, good in enumerate(finite):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, float("nan"))
            if good:
                parameter.grad.normal_(generator=generator)
        norm = nn.utils.get_total_norm([p.grad for p in parameters])
        counter.skip_unless(norm.isfinite(), optimizer=optimizer, parameters=parameters)
        counter.check(step, last=False)
        optimizer.step()
    state = [x for p in parameters for x in optimizer.state[p].values()]
    return [*(p.detach() for p in parameters), *state], counter


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("bad", [[0], [2], [1, 2], [0, 4]])
def test_the_run_goes_on_as_if_the_step_had_not_been(kind, bad):
    finite = [step not in bad for step in range(5)]
    ours, counter = steps(kind, finite)
    theirs, _ = steps(kind, [True] * sum(finite))
    assert len(ours) == len(theirs) >= 2
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x, y)
    assert counter.state()[0] == int(counter.total) == len(bad)


def test_steps_in_a_row_end_the_run_and_a_finite_one_starts_the_count_anew():
    _, counter = steps("fused", [True, False, False, True, False], patience=3)
    assert counter.state() == (3, 1)
    with pytest.raises(TrainingDiverged, match=r"3 steps in a row \(patience\), last at step 4"):
        steps("fused", [True, True, False, False, False, True], patience=3)


def test_a_count_goes_on_from_its_state():
    counter = SkippedSteps(patience=3)
    counter.load((5, 2))
    counter.check(0, last=False)
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(1))], fused=True)
    counter.skip_unless(torch.tensor(False), optimizer=optimizer, parameters=[])
    assert counter.state() == (6, 3)
    with pytest.raises(TrainingDiverged, match="3 steps in a row"):
        counter.check(1, last=False)
