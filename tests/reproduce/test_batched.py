"""Many runs as lanes of a tensor do exactly what one model does alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hgeo.data import load, make_dataset
from hgeo.reproduce._batched import Run, Views, _knobs, _pack, _unpack, batched_forward, init_parameters, train_batch
from hgeo.reproduce._flat import Config, build_flat, defaults

METHODS = ("hat", "hat-uniform", "hat-paper", "gcn", "gcn-diffused", "gat")


@pytest.fixture(scope="module")
def dataset():
    rng = np.random.default_rng(0)
    nodes, classes = 60, 3
    label = np.arange(nodes) % classes
    words = (rng.random((nodes, 12)) < 0.2 + 0.3 * (np.arange(12) % classes == label[:, None])).astype(np.float32)
    words[:, 0] = 1
    edges = rng.integers(nodes, size=(2, 120))
    # two nodes without any neighbour
    edges = edges[:, (edges < nodes - 2).all(axis=0)]
    masks = {"train": np.arange(0, 9), "val": np.arange(9, 30), "test": np.arange(30, 60)}
    return make_dataset("toy", edges, words * (words.cumsum(1) < 5), label, masks=masks)


def state_of(config, model, parameters):
    """The public model with the parameters of a batched run."""
    names = {
        "hat": {"weight1": "conv1.weight", "weight2": "conv2.weight", "bias1": "conv1.bias", "bias2": "conv2.bias"},
        "gcn": {"weight1": "linear1.weight", "weight2": "linear2.weight", "bias1": "conv1.bias", "bias2": "conv2.bias"},
        "gat": {
            "weight1": "conv1.fc.weight",
            "weight2": "conv2.fc.weight",
            "bias1": "conv1.bias",
            "bias2": "conv2.bias",
        },
    }[config.kind]
    names |= {"weight3": "head.weight", "bias3": "head.bias"}
    if config.method == "gcn-diffused":
        names["bias2"] = "bias2"
    for layer in (1, 2):
        names |= {f"attn_src{layer}": f"conv{layer}.attn_l", f"attn_dst{layer}": f"conv{layer}.attn_r"}
    state = model.state_dict()
    for name, value in parameters.items():
        target = state[names[name]]
        target.copy_((value.t() if value.dim() == 2 else value).reshape(target.shape))
    return model


def configs(method):
    base = replace(defaults(method, 4), feat_drop=0.0, hidden_drop=0.0, attn_drop=0.0)
    if method in ("hat", "hat-uniform"):
        sharp = 0.0 if method == "hat-uniform" else 2.0
        return [
            base,
            replace(base, degree_norm=True, beta=sharp),
            replace(base, degree_norm=True, beta=sharp, steps=3, restart=0.2),
            replace(base, radius_norm=False, self_score="zero", c=0.3, beta=sharp, beta_out=2 * sharp),
        ]
    if method == "gat":
        return [base, replace(base, degree_norm=True), replace(base, steps=3)]  # a GAT has no use for steps
    return [base]


@pytest.mark.parametrize("readout", ["log0", "linear"])
@pytest.mark.parametrize("method", METHODS)
def test_a_lane_computes_what_the_public_model_computes(method, readout, dataset):
    by_steps: dict[int, list[Config]] = {}
    for config in configs(method):
        by_steps.setdefault(config.steps, []).append(replace(config, readout=readout))
    for some in by_steps.values():
        _compare_lanes(method, dataset, [Run(config, seed) for config in some for seed in (3, 4)])


def _compare_lanes(method, dataset, runs):
    parameters = [init_parameters(config, seed, dataset.num_features, dataset.num_classes) for config, seed, _ in runs]
    for start in parameters:  # biases and weights large enough that every branch matters
        for name in start:
            start[name] = 3 * start[name] if "weight" in name else start[name] + 0.1 * torch.arange(len(start[name]))
    packed = {name: _pack(torch.stack([p[name] for p in parameters])).requires_grad_() for name in parameters[0]}
    views = Views(dataset)
    hidden, logits = batched_forward(packed, views.full, _knobs(runs, torch.float32))
    weights = torch.linspace(-1, 1, logits[0, ..., 0].numel()).view(logits.shape[1:-1])
    (logits * weights.unsqueeze(-1)).sum().backward()
    for lane, ((config, *_), own) in enumerate(zip(runs, parameters, strict=True)):
        model = state_of(config, build_flat(config, dataset), own).eval()
        expected = model(dataset.graph, dataset.features)
        torch.testing.assert_close(_unpack(logits, len(runs))[lane], expected, rtol=2e-4, atol=2e-5)
        points = model.embed(dataset.graph, dataset.features)
        tangent = points if not method.startswith("hat") else _log0(model.hidden_manifold, points)
        torch.testing.assert_close(_unpack(hidden, len(runs))[lane], tangent, rtol=2e-4, atol=2e-5)
        (expected * weights).sum().backward()
        slope = _unpack(packed["weight1"].grad, len(runs))[lane]
        weight = dict(model.named_parameters())[
            {"gcn": "linear1.weight", "gat": "conv1.fc.weight"}.get(runs[0].config.kind, "conv1.weight")
        ]
        torch.testing.assert_close(slope, weight.grad.t(), rtol=2e-3, atol=2e-4 * float(weight.grad.abs().max()))


def _log0(manifold, points):
    from hgeo.manifolds import log0

    return log0(manifold, points)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_view_of_the_training_nodes_gives_their_outputs_exactly(method, steps, dataset):
    # radius_norm divides by a mean over all nodes, which a view cannot know
    config = replace(defaults(method, 4), radius_norm=False, degree_norm=True, steps=steps)
    views = Views(dataset)
    start = init_parameters(config, 0, dataset.num_features, dataset.num_classes)
    packed = {name: _pack(value.unsqueeze(0)) for name, value in start.items()}
    knobs = _knobs([Run(config, 0)], torch.float32)
    _, everything = batched_forward(packed, views.full, knobs)
    for view, index in ((views.train, dataset.train_idx), (views.val, dataset.val_idx)):
        assert len(view.needs(steps).rows.rows) < dataset.num_nodes
        _, some = batched_forward(packed, view, knobs)
        torch.testing.assert_close(some, everything[:, index], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["hat", "gcn", "gat"])
def test_a_run_does_not_depend_on_its_neighbours_in_the_batch(method, dataset):
    views = Views(dataset)
    config = replace(defaults(method, 2), epochs=12, patience=100)
    other = replace(config, lr=0.1, feat_drop=0.1, weight_decay=0.0, label_smoothing=0.0)
    mixed = [(other if seed % 3 else config, seed) for seed in range(11)]
    together = train_batch(views, mixed, evaluate=views.full)
    for run in (0, 1, 9, 10):
        alone = train_batch(views, [mixed[run]], evaluate=views.full)[0]
        assert alone.seed == together[run].seed == run
        assert alone.best_epoch == together[run].best_epoch
        torch.testing.assert_close(alone.logits, together[run].logits, rtol=1e-4, atol=1e-5)


def test_runs_on_different_splits_share_a_batch(dataset):
    other = replace(dataset, train_idx=dataset.test_idx[:6], val_idx=dataset.train_idx, test_idx=dataset.val_idx)
    # the random numbers of feature dropout belong to the matrix, those of the other dropouts to the view
    config = replace(defaults("gcn", 4), epochs=15, patience=100, hidden_drop=0.0, attn_drop=0.0)
    views = Views(dataset, other)
    both = train_batch(views, [Run(config, 1, 0), Run(config, 1, 1)], evaluate=views.full)
    for split, data in enumerate((dataset, other)):
        views = Views(data)
        alone = train_batch(views, [Run(config, 1)], evaluate=views.full)[0]
        assert both[split].split == split
        assert both[split].val_accuracy == pytest.approx(alone.val_accuracy)
        torch.testing.assert_close(both[split].logits, alone.logits, rtol=1e-4, atol=1e-5)


def test_each_of_several_steps_drops_other_weights():
    from hgeo.reproduce._lanes import LANES

    # a node alone hears itself over its loop, in each step: one draw for both would keep it every second time
    nodes = 400
    edges = np.array([[0], [1]])
    masks = {"train": [0, 1], "val": [2, 3], "test": [4]}
    data = make_dataset("loops", edges, np.eye(nodes, dtype=np.float32), np.arange(nodes) % 2, masks=masks)
    config = replace(
        defaults("hat-uniform", 2), steps=2, restart=0.0, attn_drop=0.5, feat_drop=0.0, hidden_drop=0.0, bias=False,
        degree_norm=False,
    )  # fmt: skip
    views, start = Views(data), init_parameters(config, 0, nodes, 2)
    packed = {name: _pack(value.unsqueeze(0)) for name, value in start.items()}
    hidden, logits = batched_forward(packed, views.full, _knobs([Run(config, 0)], torch.float32), step=1)
    kept = (hidden.abs().sum(2) > 0)[..., 0]
    heard = (logits.abs().sum(2) > 0)[..., 0]
    assert logits.shape[-1] == LANES
    assert abs(float(kept.float().mean()) - 0.5) < 0.1
    assert abs(float(heard[kept].float().mean()) - 0.25) < 0.1


def test_the_same_number_of_hits_is_the_same_accuracy_whichever_they_are(dataset):
    views = Views(dataset)
    runs = [(replace(defaults("gcn", 2), epochs=4, lr=0.05), seed) for seed in range(16)]
    for result in train_batch(views, runs):
        hits = result.val_accuracy * len(dataset.val_idx)
        assert hits == pytest.approx(round(hits), abs=1e-5)
        assert np.float32(result.val_accuracy) == np.float32(round(hits)) / np.float32(len(dataset.val_idx))


def test_what_the_engine_does_not_know_is_refused(dataset):
    with pytest.raises(ValueError, match="does not know mlp; known: hat, "):
        train_batch(Views(dataset), [(defaults("mlp", 2), 0)])


def test_seeds_give_different_runs_and_the_same_seed_the_same_run(dataset):
    views = Views(dataset)
    config = replace(defaults("hat", 2), epochs=5)
    first, second, again = train_batch(views, [(config, 1), (config, 2), (config, 1)], evaluate=views.full)
    assert not torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, again.logits)


def test_runs_stop_on_their_own_and_keep_their_best_epoch(dataset):
    views = Views(dataset)
    short = replace(defaults("gcn", 4), epochs=3)
    long = replace(short, epochs=40, patience=1000)
    runs = [(short if seed < 12 else long, seed) for seed in range(20)]
    seen = []
    results = train_batch(views, runs, on_epoch=lambda epoch, active: seen.append((epoch, active)))
    assert [result.epochs for result in results] == [3] * 12 + [40] * 8
    assert seen[1] == (2, 20)
    assert seen[3] == (4, 8)
    assert all(1 <= result.best_epoch <= result.epochs for result in results)
    assert all(result.logits is None for result in results)


def test_dropout_keeps_its_mean_and_its_rate(dataset):
    from hgeo.reproduce._lanes import LANES, dropout, keys_for

    rate = torch.linspace(0, 0.7, LANES).unsqueeze(0)
    x = torch.ones(1, 20000, LANES)
    y = dropout(x, rate, keys_for(np.arange(LANES)[None], 3, 1))
    assert torch.allclose((y == 0).float().mean((0, 1)), rate[0], atol=0.02)
    assert torch.allclose(y.mean((0, 1)), torch.ones(LANES), atol=0.05)


def test_training_learns_the_built_in_hierarchy():
    data = load("hierarchy")
    config = replace(defaults("hat", 4), epochs=60)
    views = Views(data)
    (result,) = train_batch(views, [(config, 0)], evaluate=views.full)
    test = data.test_idx
    accuracy = (result.logits[test].argmax(1) == data.labels[test]).float().mean()
    assert accuracy > 0.6  # chance is 1/6


def test_runs_of_different_shape_cannot_share_a_batch(dataset):
    with pytest.raises(ValueError, match="share method, dim and structure"):
        train_batch(Views(dataset), [(Config(dim=2), 0), (Config(dim=4), 0)])
