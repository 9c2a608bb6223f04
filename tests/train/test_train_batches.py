"""Training in batches: full fan-out is the whole graph, a sample stands for it, and a run can be taken up again."""

import dataclasses
import json
import math

import pytest
import torch

import hgeo
from hgeo.cli import main
from hgeo.data import hierarchy, karate
from hgeo.models import TrainSettings, build, names
from hgeo.tasks import Distances, Epoch, Links, Nodes, Task
from hgeo.train import InMemory, RunFolder, Team, fit, infer
from hgeo.train._batches import InBatches, WholeGraph, source_for

pytest.importorskip("dgl")

IN_LAYERS = [name for name in names() if name != "gcn-diffused"]
EPOCH = Epoch(3, 0, TrainSettings())


@pytest.fixture(scope="module")
def tree():
    return hierarchy().to(dtype=torch.float64)


@pytest.fixture
def club():
    return karate().to(dtype=torch.float64)


def network(name, data, **options):
    torch.manual_seed(0)
    model = build(name, data, "stereo:3" if name == "kappa-gcn" else "ball:3", **options).double()
    with torch.no_grad():
        for weight in model.parameters():  # biases begin at zero, where mistakes would not show
            weight += 0.1 * torch.randn_like(weight)
    return model.eval()  # no dropout: its masks depend on the order of rows


def without(data, hidden):
    """The data without these edges, found one by one."""
    gone = set(zip(*hidden.tolist(), strict=True))
    kept = [edge for edge in zip(*data.edge_index.tolist(), strict=True) if edge not in gone]
    assert len(kept) == data.num_edges - len(gone)
    return data.with_edges(torch.tensor(kept).T)


def loss_and_gradients(source, model):
    model.zero_grad()
    total = 0.0
    for share, loss in source.losses(EPOCH):
        (share * loss).backward()
        total += share * float(loss.detach())
    return total, [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


@pytest.mark.parametrize("name", IN_LAYERS)
@pytest.mark.parametrize("task", [Nodes, Links])
def test_batches_with_all_neighbours_give_the_losses_and_gradients_of_the_whole_graph(name, task, tree):
    work = task(tree)
    model = work.attach(network(name, work.dataset)).double()
    batches = InBatches(
        model, work, TrainSettings(batch_size=60 if task is Nodes else 2000), InMemory(work.dataset), Team()
    )
    if task is Links:  # of the links and negatives that the batches drew, on the graph without these links
        count, parts, batch = work.num_examples, [], work.batch
        work.batch = lambda chosen, epoch: parts.append((len(chosen), batch(chosen, epoch))) or parts[-1][1]
        found = loss_and_gradients(batches, model)
        model.zero_grad()
        whole = 0.0
        for size, part in parts:
            seen = without(work.dataset, part.hidden)
            points = model(seen.graph, seen.features)
            whole = whole + size / count * part.loss(model, points[part.nodes])
        whole.backward()
        expected = float(whole.detach()), [w.grad for w in model.parameters() if w.grad is not None]
    else:
        found, expected = (loss_and_gradients(source, model) for source in (batches, WholeGraph(model, work)))
    assert found[0] == pytest.approx(expected[0], abs=1e-12)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", IN_LAYERS)
def test_inference_layer_by_layer_is_exact_however_many_nodes_are_computed_at_once(name, tree):
    model, neighbours = network(name, tree), InMemory(tree)
    with torch.no_grad():
        whole = model(tree.graph, tree.features)
    wanted = torch.tensor([700, 3, 1500])
    torch.testing.assert_close(infer(model, neighbours, at_once=300), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(infer(model, neighbours, wanted, at_once=2), whole[wanted], rtol=0, atol=1e-12)


def test_a_deep_hat_with_heads_of_its_own_weight_is_inferred_exactly(tree):
    model = network("hat", tree, layers=3, residual=True, self_weight=True, degree_norm=True, readout="linear")
    with torch.no_grad():
        whole = model(tree.graph, tree.features)
    torch.testing.assert_close(infer(model, InMemory(tree), at_once=500), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["gcn", "sage", "hgcn"])
def test_sums_over_a_sample_stand_for_sums_over_all_neighbours(name, tree):
    # Of neighbours that are all alike any sample has the mean and, scaled up by the degrees, the sum of all of them.
    edges = torch.stack([torch.arange(1, 40), torch.zeros(39, dtype=torch.long)])
    star = hgeo.data.make_dataset(
        "star", edges, torch.cat([torch.ones(1, 2), 3 * torch.ones(39, 2)]), torch.arange(40) % 2, normalize="none"
    ).to(dtype=torch.float64)
    model = network(name, star)
    first = model.rounds[0].run
    (whole,), (sampled,) = (InMemory(star).draw([torch.tensor([0])], (fanout,), seed=1) for fanout in (-1, 5))
    assert (whole.blocks[0].num_edges, sampled.blocks[0].num_edges) == (39, 5)
    exact, estimate = (first(drawn.blocks[0], star.features[drawn.inputs]) for drawn in (whole, sampled))
    if name == "sage":
        torch.testing.assert_close(estimate, exact, rtol=1e-12, atol=1e-12)
    else:  # the node itself is one of six instead of one of forty
        own = first(hgeo.Graph(torch.tensor([]).long(), torch.tensor([]).long(), 1), star.features[:1])
        assert (estimate - exact).norm() < 0.3 * (own - exact).norm()


def test_all_batches_together_see_every_training_node_once_an_epoch(tree):
    seen = []

    class Watched(Nodes):
        def batch(self, chosen, epoch):
            seen.append(chosen)
            return super().batch(chosen, epoch)

    work = Watched(tree)
    source = InBatches(network("gcn", tree), work, TrainSettings(batch_size=7, fanout="3,2"), InMemory(tree), Team())
    shares = [share for share, _ in source.losses(EPOCH)]
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(len(tree.train_idx)))
    assert max(map(len, seen)) <= 7
    assert sum(shares) == pytest.approx(1)
    first, seen[:] = torch.cat(seen), []
    list(source.losses(EPOCH._replace(number=4)))
    assert not torch.equal(first, torch.cat(seen))  # in another order


def test_a_batch_sees_no_more_neighbours_than_the_fanout_says(tree):
    drawn = next(InMemory(tree).draw([torch.arange(50)], (4, 2), seed=0))
    assert drawn.blocks[1].num_dst == 50
    assert [int(block.edges_into.max()) for block in drawn.blocks] == [4, 2]
    whole = tree.graph.with_self_loops()
    assert torch.equal(drawn.blocks[0].out_degrees, whole.out_degrees[drawn.inputs])


def test_distances_are_fitted_in_batches_too(club):
    work = Distances(club)
    model = work.attach(network("hgcn", work.dataset))
    source = InBatches(model, work, TrainSettings(batch_size=20), InMemory(work.dataset), Team())
    found, whole = (loss_and_gradients(one, model) for one in (source, WholeGraph(model, work)))
    assert found[0] == pytest.approx(whole[0], abs=1e-12)


@pytest.mark.parametrize("task", [Nodes, Links])
def test_a_run_in_batches_ends_in_the_same_bits_after_an_interruption(task, tmp_path):
    data = hierarchy()
    settings = TrainSettings(epochs=6, batch_size=64 if task is Nodes else 2000, fanout="4,3", lr=0.02)

    work = task(data)

    def run(folder, **changes):
        torch.manual_seed(0)
        model = work.attach(build("hat", work.dataset, "ball:3"))
        return fit(model, work, dataclasses.replace(settings, **changes), folder=folder, resume=True)

    whole, folder = run(RunFolder(tmp_path / "whole")), RunFolder(tmp_path / "cut")
    run(folder, epochs=3)
    again = run(folder)
    assert again.epochs == whole.epochs == 6
    for name, value in whole.state.items():
        assert torch.equal(value, again.state[name]), name
    lines = [
        [json.loads(line)["loss"] for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("whole", "cut")
    ]
    assert lines[0] == lines[1]


def test_training_in_batches_reaches_what_the_whole_graph_does():
    data = hierarchy()
    scores = []
    for more in ({}, {"batch_size": 40, "fanout": "5,5"}):
        torch.manual_seed(0)
        model = build("hat", data, "ball:8")
        scores.append(fit(model, data, TrainSettings(epochs=60, lr=0.03, **more)).val_accuracy)
    assert scores[1] > scores[0] - 0.03


def refusal(model, task, **settings):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (each sentence is looked at by the caller)
        source_for(model, task, TrainSettings(**settings))
    return str(error.value)


def test_what_does_not_fit_is_refused_with_a_sentence(club):
    model, work = network("hat", club), Nodes(club)
    assert refusal(model, work, batch_size=3).startswith("batch_size is 3, but there are 2 examples")
    assert refusal(model, work, batch_size=2, fanout="5").startswith("fanout 5 has 1 number(s), but HAT has 2 layers")
    assert "add batch_size" in refusal(model, work, fanout="5,5")
    assert "expected numbers from 1 on" in refusal(model, work, batch_size=2, fanout="5,0")
    assert "several steps" in refusal(network("gcn-diffused", club), work, batch_size=2)

    class Undivided(Task):
        loss = evaluate = watched = lambda *_: None

    assert "its loss needs all examples at once" in refusal(model, Undivided(club), batch_size=2)


def test_a_network_that_hears_no_neighbours_has_no_fanout(club):
    assert "0 layers" in refusal(network("mlp", club), Nodes(club), batch_size=2, fanout="5,5")
    result = fit(build("mlp", karate(), "ball:2"), karate(), TrainSettings(epochs=3, batch_size=2))
    assert math.isfinite(result.val_loss)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--batch-size", "50"], "batch_size is 50, but there are 2 examples to train on"),
        (["--batch-size", "2", "--fanout", "5"], "HAT has 2 layers"),
        (["--fanout", "5,5"], "add batch_size"),
    ],
)
def test_hgeo_train_refuses_batches_that_do_not_fit_and_writes_nothing(words, said, tmp_path, capsys):
    assert main(["train", "--dataset", "karate", "--out", str(tmp_path / "run"), *words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
