"""The loop: same seed, same bits; interrupted and resumed, the same bits; the best epoch is what is kept."""

import math
import os
import signal
import struct
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import hgeo
from hgeo.data import hierarchy, karate
from hgeo.graph import Distance
from hgeo.models import TrainSettings, build, find, names, recipe
from hgeo.nn import HATConv
from hgeo.train import (
    Job,
    RunFolder,
    TrainingError,
    TrainingWarning,
    curvatures,
    fit,
    inspect,
    make_optimizer,
)


class Network(nn.Module):
    """Two layers of hyperbolic attention with dropout, small."""

    hops = 2

    def __init__(self, data, *, c=1.0, learnable=False, dropout=0.3):
        super().__init__()
        ball = hgeo.PoincareBall(c=c, learnable=learnable)
        self.first = HATConv(
            data.num_features, 3, ball, feat_drop=dropout, attn_drop=dropout, bias="point", activation_space="tangent"
        )
        self.second = HATConv(3, data.num_classes, hgeo.PoincareBall(c=1.0), in_manifold=ball, activation=None)

    def forward(self, graph, features):
        return hgeo.log0(self.second.manifold, self.second(graph, self.first(graph, features)))


@pytest.fixture(scope="module")
def data():
    return hierarchy(depth=3, branches=4)


def network(data, seed=0, **options):
    torch.manual_seed(seed)
    return Network(data, **options)


QUICK = TrainSettings(lr=0.03, epochs=12, patience=12)


def test_the_same_seed_gives_the_same_bits(data):
    first, again = (fit(network(data), data, QUICK, seed=1) for _ in range(2))
    other = fit(network(data), data, QUICK, seed=2)
    assert first.val_loss == again.val_loss
    assert all(torch.equal(first.state[name], again.state[name]) for name in first.state)
    assert first.val_loss != other.val_loss


@pytest.mark.filterwarnings("ignore::hgeo.train.TrainingWarning")
@pytest.mark.parametrize("name", names())
def test_every_model_is_trained_and_watched(name, data):
    job = Job("karate", name, find(name).space_for(None, 2), options={"epochs": 2})
    assert math.isfinite(job.run(data)["test_accuracy"])


def test_training_learns(data):
    result = fit(network(data, dropout=0.0), data, TrainSettings(lr=0.05, epochs=60, patience=60))
    chance = 1 / data.num_classes
    assert result.val_accuracy > 1.5 * chance
    assert result.test_accuracy > 1.5 * chance


def test_the_model_ends_with_the_weights_of_its_best_epoch(data, tmp_path):
    folder = RunFolder(tmp_path)
    model = network(data)
    result = fit(model, data, QUICK, folder=folder)
    rows = folder.metrics()
    best = max(rows, key=lambda row: (row["val_accuracy"], -row["val_loss"]))
    assert len(rows) == result.epochs
    assert (best["epoch"], best["val_accuracy"], best["val_loss"]) == (
        result.best_epoch,
        result.val_accuracy,
        result.val_loss,
    )
    model.eval()
    with torch.no_grad():
        logits = model(data.graph, data.features)[data.val_idx]
    assert torch.nn.functional.cross_entropy(logits, data.labels[data.val_idx]).item() == pytest.approx(
        result.val_loss, rel=1e-5
    )


def test_patience_ends_a_run_that_does_not_improve(data):
    result = fit(network(data), data, TrainSettings(lr=1e-30, epochs=50, patience=5))
    assert result.epochs == 6  # the first epoch is the best, then five that are not better


def test_a_run_folder_holds_what_happened_in_safe_formats(data, tmp_path):
    fit(network(data), data, QUICK, folder=RunFolder(tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    assert {"metrics.jsonl", "result.json", "model.safetensors", "checkpoint"} <= names
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pt", ".pkl", ".bin")]
    loaded = network(data, seed=9)
    loaded.load_state_dict(RunFolder(tmp_path).weights())
    row = RunFolder(tmp_path).metrics()[0]
    assert {"epoch", "loss", "val_loss", "val_accuracy", "curvatures", "at_limit", "attention_entropy"} <= set(row)


def test_an_interrupted_run_resumes_to_the_same_bits(data, tmp_path):
    whole = fit(network(data, learnable=True), data, QUICK, seed=3)
    folder = RunFolder(tmp_path)

    def interrupt(row):
        if row["epoch"] == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(network(data, learnable=True), data, QUICK, seed=3, folder=folder, on_epoch=interrupt)
    assert not folder.is_complete
    assert len(folder.metrics()) == 5
    resumed = fit(network(data, learnable=True), data, QUICK, seed=3, folder=folder, resume=True)
    assert folder.is_complete
    assert resumed.epochs == whole.epochs
    assert all(torch.equal(whole.state[name], resumed.state[name]) for name in whole.state)
    assert [row["epoch"] for row in folder.metrics()] == list(range(resumed.epochs))


@pytest.fixture
def halted(data, tmp_path):
    """A run of three epochs that can go on, and its checkpoint."""
    folder = RunFolder(tmp_path)
    fit(network(data), data, TrainSettings(epochs=3, patience=30), folder=folder)
    return folder, folder.checkpoint()


def test_a_checkpoint_does_not_choose_how_the_optimizer_steps(data, halted):
    """torch's fused kernel trusts that moments are as large as their parameters."""
    folder, state = halted
    for group in state["optimizer"]["param_groups"]:
        group.update(lr=100.0, foreach=True)
    folder.write_checkpoint(state)
    chosen = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: chosen.extend((group["lr"], group["foreach"]) for group in optimizer.param_groups)
    )
    try:
        fit(network(data), data, TrainSettings(lr=0.25, epochs=4, patience=30), folder=folder, resume=True)
    finally:
        hook.remove()
    assert set(chosen) == {(0.25, None)}


def test_a_checkpoint_does_not_have_random_numbers_read_from_beyond_their_table(data, halted):
    """torch checks how many of its 624 numbers are left, and where the next one is, but not one against the other."""
    folder, state = halted
    generator = bytearray(state["generators"][0].numpy().tobytes())
    struct.pack_into("<QiiQ", generator, 0, 0, 624, 1, 624)
    state["generators"][0] = torch.frombuffer(generator, dtype=torch.uint8)
    folder.write_checkpoint(state)
    with pytest.raises(ValueError, match="its random generator has no such state"):
        fit(network(data), data, TrainSettings(epochs=4), folder=folder, resume=True)


@pytest.mark.parametrize(
    "said",
    [{"epoch": "3"}, {"epoch": True}, {"best_accuracy": "1"}, {"warnings": "none"}, {"__dict__": {}}, {"new": 1}],
)
def test_a_checkpoint_says_of_progress_what_there_is_to_say(data, halted, said):
    folder, state = halted
    state["progress"].update(said)
    folder.write_checkpoint(state)
    with pytest.raises(
        ValueError, match=r"checkpoint in .* does not fit this model .* delete its folder to begin anew"
    ):
        fit(network(data), data, TrainSettings(epochs=4), folder=folder, resume=True)


def test_ctrl_c_is_ours_only_while_training(data):
    before = signal.getsignal(signal.SIGINT)
    fit(network(data), data, TrainSettings(epochs=1))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_learnable_curvature_is_logged_and_moves(data, tmp_path):
    folder = RunFolder(tmp_path)
    fit(network(data, learnable=True), data, QUICK, folder=folder)
    rows = folder.metrics()
    assert rows[0]["curvatures"][0] != rows[-1]["curvatures"][0]
    assert rows[0]["curvatures"][1] == rows[-1]["curvatures"][1] == -1.0


def test_curvatures_lists_a_shared_manifold_once(data):
    assert curvatures(network(data, c=0.5)) == [-0.5, -1.0]


@pytest.mark.parametrize("text", ["lorentz:2,c=0.5", "ball:2,c=0.5", "stereo:2,k=-0.5"])
def test_a_curvature_is_read_from_every_model_of_hyperbolic_space(text):
    assert curvatures(nn.ModuleList([hgeo.space(text).manifold])) == [-0.5]


def test_point_biases_stay_on_the_manifold(data):
    model = network(data, c=4.0)
    fit(model, data, TrainSettings(lr=0.3, epochs=15))
    assert model.first.bias.norm() * 2 < 1
    assert model.first.bias.norm() > 0


def test_no_decay_on_points_and_curvatures(data):
    model = network(data, learnable=True)
    optimizer = make_optimizer(model, lr=0.1, weight_decay=0.5)
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    assert id(model.first.weight) in decayed
    assert id(model.first.bias) not in decayed
    assert not decayed & {id(p) for p in model.first.manifold.parameters()}


def test_a_healthy_network_is_not_warned_about(data, recwarn):
    fit(network(data), data, TrainSettings(lr=0.01, epochs=25))
    assert not [w for w in recwarn if issubclass(w.category, TrainingWarning)]


def test_points_at_the_limit_are_warned_about_in_words(data):
    model = network(data)
    model.first.finish = replace(model.first.finish, activation=None)
    assert inspect(model, data.graph, data.features).at_limit == 0.0
    with torch.no_grad():
        model.first.weight.mul_(1e4)
    assert inspect(model, data.graph, data.features).at_limit > 0.9
    with pytest.warns(TrainingWarning, match="radius limit"):
        result = fit(model, data, TrainSettings(lr=1e-4, epochs=21, patience=30))
    assert len(result.warnings) == len({text.split()[0] for text in result.warnings})


@pytest.mark.parametrize("output", ["points", "tangent"])
@pytest.mark.parametrize("space", ["sphere:3", "sproj:3", "sphere:1 x sproj:2"])
def test_rows_that_a_sphere_turns_back_are_warned_about_in_words(data, space, output):
    manifold = hgeo.space(space).manifold
    model = network(data)
    model.first = HATConv(data.num_features, 3, manifold, activation=None, output=output)
    model.second = HATConv(3, data.num_classes, hgeo.PoincareBall(), in_manifold=manifold, input=output)
    calm = inspect(model, data.graph, data.features)
    assert calm.warning() is None
    assert calm.turned == 0.0
    with torch.no_grad():
        model.first.weight.mul_(1e3)
    wild = inspect(model, data.graph, data.features)
    assert wild.turned > 0.5
    assert "half of a great circle" in str(wild.warning())


@pytest.mark.parametrize("space", ["ball:3", "lorentz:3", "klein:3", "ball:2 x euclidean:1"])
def test_the_limit_of_every_hyperbolic_space_is_seen(data, space):
    manifold = hgeo.space(space).manifold
    model = network(data)
    model.first = HATConv(data.num_features, 3, manifold, activation=None)
    model.second = HATConv(3, data.num_classes, hgeo.PoincareBall(), in_manifold=manifold)
    assert inspect(model, data.graph, data.features).at_limit == 0.0
    with torch.no_grad():
        model.first.weight.mul_(1e4)
    assert inspect(model, data.graph, data.features).at_limit > 0.9


@pytest.mark.filterwarnings("ignore::hgeo.train.TrainingWarning")
@pytest.mark.parametrize("space", ["sphere:4", "sphere:8"])
def test_training_on_a_sphere_does_not_collapse(space):
    """Logits that turned back at the opposite pole once threw it back to chance after some 60 epochs."""
    club, losses = karate(), []
    torch.manual_seed(0)
    settings, training = recipe("hat", club, space, epochs=150, patience=150)
    model = build("hat", club, space, settings=settings)
    fit(model, club, training, on_epoch=lambda row: losses.append(row["loss"]))
    assert sum(losses[-50:]) / 50 < 0.75 * losses[0]


def test_attention_that_looks_only_at_itself_is_collapsed(data):
    model = network(data)
    model.second.score = Distance(beta=1e4)
    health = inspect(model, data.graph, data.features)
    assert health.entropy < 0.05
    assert "attention of layer 2 of 2" in health.warning()
    assert "aggregation has stopped there" in health.warning()


def test_uniform_attention_has_full_entropy(data):
    model = network(data)
    model.first.score = model.second.score = Distance(beta=1e-9)
    assert inspect(model, data.graph, data.features).entropy == pytest.approx(1.0, abs=1e-4)


def test_a_loss_that_is_no_number_stops_training_and_the_best_epoch_before_is_kept(data, tmp_path):
    model, folder = network(data), RunFolder(tmp_path)

    def spoil(row):
        if row["epoch"] == 3:
            with torch.no_grad():
                model.first.weight[0, 0] = float("nan")

    with pytest.warns(TrainingWarning, match="loss is nan in epoch 4"):
        result = fit(model, data, QUICK, folder=folder, on_epoch=spoil)
    assert result.epochs == 5
    assert result.best_epoch <= 3
    assert all(value.isfinite().all() for value in result.state.values())
    assert folder.result()["val_loss"] == min(
        row["val_loss"] for row in folder.metrics() if row["val_accuracy"] == result.val_accuracy
    )


class _Spoiled(nn.Module):
    """Learns, but what it says about validation nodes is never a number once it is asked."""

    hops = 0

    def __init__(self, data):
        super().__init__()
        self.linear = nn.Linear(data.num_features, data.num_classes)

    def forward(self, graph, features):
        return self.linear(features) if self.training else self.linear(features) * float("nan")


def test_a_model_that_says_no_number_is_never_the_best(data, tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(TrainingError, match=r"none of 12 epoch\(s\) gave a model to keep\. Try a smaller lr"):
        fit(_Spoiled(data), data, QUICK, folder=folder)
    assert not folder.is_complete
    assert not folder.has_checkpoint
    folder.discard()
    assert not folder.path.exists()


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[: len(content) // 2]])
def test_a_damaged_checkpoint_is_named(data, tmp_path, damage):
    folder = RunFolder(tmp_path)
    fit(network(data), data, TrainSettings(epochs=2), folder=folder)
    file = tmp_path / "checkpoint" / "state.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=r"state\.safetensors is damaged .*; delete its folder to begin the run anew"):
        fit(network(data), data, TrainSettings(epochs=4), folder=folder, resume=True)


def test_a_checkpoint_of_another_model_is_refused_by_its_folder(data, tmp_path):
    folder = RunFolder(tmp_path)
    fit(network(data), data, TrainSettings(epochs=2), folder=folder)
    with pytest.raises(ValueError, match=f"the checkpoint in {tmp_path} does not fit this model"):
        fit(_Spoiled(data), data, TrainSettings(epochs=4), folder=folder, resume=True)


def test_sparse_features_train_too():
    club = karate()
    result = fit(network(club), club, TrainSettings(lr=0.05, epochs=30))
    assert result.epochs > 0
    assert 0 <= result.test_accuracy <= 1
