"""Every graph network keeps one interface, learns, and reads sparse features without making them dense."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import hgeo
from hgeo.data import load
from hgeo.graph import Distance, TangentSum, Uniform
from hgeo.models import GATSettings, GCNSettings, HATSettings, Sizes, TrainSettings, build, find, names, recipe


@pytest.fixture(scope="module")
def karate():
    return load("karate")


@pytest.mark.parametrize("name", names())
def test_a_model_gives_logits_and_hidden_points_of_its_manifold(name, karate):
    torch.manual_seed(0)
    model = build(name, karate, "stereo:4,k=-0.5" if name == "kappa-gcn" else "ball:4").eval()
    logits = model(karate.graph, karate.features)
    assert logits.shape == (34, 2)
    hidden = model.embed(karate.graph, karate.features)
    assert hidden.shape == (34, 4)
    hgeo.validate(model.hidden_manifold, hidden)
    assert model.hops == (0 if name in ("mlp", "hnn") else 1 + getattr(model.settings, "steps", 1))


@pytest.mark.parametrize("name", names())
def test_a_model_learns_the_training_nodes(name, karate):
    torch.manual_seed(0)
    space = "stereo:4" if name == "kappa-gcn" else "ball:4"
    model = build(name, karate, space, feat_drop=0.0, hidden_drop=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    target = karate.labels[karate.train_idx]
    for _ in range(60):
        loss = F.cross_entropy(model(karate.graph, karate.features)[karate.train_idx], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss) < 0.2 < F.cross_entropy(torch.zeros(2, 2), target)


@pytest.mark.parametrize("name", names())
def test_sparse_and_dense_features_give_the_same_logits(name, karate):
    torch.manual_seed(1)
    model = build(name, karate, "stereo:3" if name == "kappa-gcn" else "ball:3").eval()
    dense = karate.features.to_dense()
    torch.testing.assert_close(model(karate.graph, karate.features), model(karate.graph, dense))


@pytest.mark.parametrize("name", names())
def test_the_same_graph_in_another_format_gives_the_same_logits(name, karate):
    torch.manual_seed(2)
    model = build(name, karate, "stereo:3" if name == "kappa-gcn" else "ball:3").eval()
    expected = model(karate.graph, karate.features)
    torch.testing.assert_close(model(karate.edge_index, karate.features), expected)
    torch.testing.assert_close(model(karate.dgl(), karate.features), expected)


@pytest.mark.parametrize("space", ["ball:4,c=learn", "lorentz:4", "euclidean:4", "sproj:4", "ball:2 x sphere:2"])
def test_hat_swaps_its_manifold_by_a_string(space, karate):
    model = build("hat", karate, space)
    loss = model(karate.graph, karate.features).square().sum()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert model.conv1.weight.grad.abs().sum() > 0


def test_the_printed_hat_is_the_paper(karate):
    model = build("hat-paper", karate, "ball:16")
    for conv in (model.conv1, model.conv2):
        assert conv.score == Distance(beta=1.0, radius_norm=False, self_score="zero")
        assert conv.aggregate == TangentSum(degree_norm=False, steps=1)
        assert conv.bias is None
    assert model.conv1.finish.activation_space == "ball"
    assert model.conv1.finish.activation is F.elu
    assert model.conv2.finish.activation is None


@pytest.mark.parametrize("steps", [1, 3])
def test_uniform_hat_with_degree_normalisation_is_a_gcn(karate, steps):
    hat = build("hat-uniform", karate, "ball:4", degree_norm=True, steps=steps, restart=0.2).eval()
    gcn = build("gcn-diffused", karate, "ball:4", steps=steps, restart=0.2).eval()
    state = gcn.state_dict()
    for layer in (1, 2):
        state[f"linear{layer}.weight"].copy_(getattr(hat, f"conv{layer}").weight)
    torch.testing.assert_close(
        hat(karate.graph, karate.features), gcn(karate.graph, karate.features), rtol=1e-4, atol=1e-6
    )


def test_wrong_requests_say_what_was_expected(karate):
    with pytest.raises(ValueError, match=r"no model 'hta'; did you mean 'hat'\?; known: hat"):
        build("hta", karate)
    with pytest.raises(ValueError, match=r"no setting betta; did you mean 'beta'\?; hat has beta, beta_out"):
        build("hat", karate, betta=1.0)
    with pytest.raises(ValueError, match="no setting lr; hat has beta"):
        build("hat", karate, lr=1.0)
    with pytest.raises(ValueError, match="stereographic family"):
        build("kappa-gcn", karate, "lorentz:4")
    with pytest.raises(ValueError, match=r"no setting beta; hat-uniform has it fixed at 0\.0; hat-uniform has radius"):
        build("hat-uniform", karate, beta=0.5)
    with pytest.raises(ValueError, match=r"steps is 2.5, expected a whole number from 1 on"):
        HATSettings(steps=2.5)
    with pytest.raises(ValueError, match=r"attn_drop is 1.5"):
        GATSettings(attn_drop=1.5)
    with pytest.raises(ValueError, match=r"epochs is 0, expected a whole number from 1 on"):
        TrainSettings(epochs=0)


@pytest.mark.parametrize("name", names())
def test_a_setting_that_a_model_has_not_is_refused_and_those_that_it_has_are_named(name, karate):
    with pytest.raises(ValueError, match=f"no setting colour; {name} has .*; training has lr, weight_decay"):
        recipe(name, karate, colour="red")
    if name in ("gcn", "mlp"):
        with pytest.raises(ValueError, match=f"no setting beta; {name} has activation"):
            recipe(name, karate, beta=0.5)


def test_a_recipe_changes_single_settings_of_model_and_training(karate):
    settings, training = recipe("hat", karate, "ball:2", beta=2.0, lr=0.5)
    assert (settings.beta, settings.betas, training.lr) == (2.0, (2.0, 2.0), 0.5)
    assert (settings.hidden_drop, training.epochs) == (0.0, 500)
    wide, longer = recipe("hat", karate, "ball:16")
    assert (wide.degree_norm, wide.hidden_drop, longer.lr) == (True, 0.5, 0.01)
    assert HATSettings(beta=2.0, beta_out=0.0).betas == (2.0, 0.0)


def test_a_model_that_is_no_curved_one_lives_in_flat_space_of_the_dimension_asked_for(karate):
    assert find("gcn").space_for("ball:2 x sphere:3") == "euclidean:5"
    assert find("hat").space_for(None, 2) == "ball:2"
    model = build("gcn", karate, "ball:3", settings=GCNSettings(readout="linear"))
    assert model.head.in_features == 3
    assert isinstance(model.hidden_manifold, hgeo.manifolds.space("euclidean:3").manifold.__class__)


def test_few_features_are_not_dropped_by_default():
    drops = [find("hat").recipe(Sizes(16, num_features=count)).settings.feat_drop for count in (2, 8, 16, 1433)]
    assert drops == [0.0, 0.0, 0.5, find("hat").recipe(Sizes(16)).settings.feat_drop]


@pytest.mark.parametrize("space", ["ball:2", "stereo:2,k=-1", "sphere:2", "sproj:2", "lorentz:2", "euclidean:2"])
@pytest.mark.parametrize("name", ["hat", "hat-paper"])
def test_logits_are_not_limited_like_points_of_a_space(name, space, karate):
    model = build(name, karate, space).eval()
    small = model(karate.graph, karate.features)
    with torch.no_grad():
        model.conv2.weight *= 1e4
        if model.conv2.bias is not None:
            model.conv2.bias *= 1e4
        model.conv2.score = Uniform()  # weights that do not depend on the scale
        large = model(karate.graph, karate.features)
    assert small.norm(dim=1).max() < 8
    assert large.norm(dim=1).max() > 100


def test_hooks_see_the_output_of_layers_and_change_it_only_if_they_return_something(karate):
    model = build("hat", karate, "ball:2").eval()
    expected = model(karate.graph, karate.features)
    seen, slopes = [], []
    for layer in (model.conv1, model.conv2):
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    model.conv2.register_full_backward_hook(lambda module, *grads: slopes.append(grads))
    watched = model(karate.graph, karate.features)
    assert torch.equal(watched, expected)
    watched.sum().backward()
    assert len(slopes) == 1
    assert [tuple(rows.shape) for rows in seen] == [(34, 2), (34, karate.num_classes)]
    torch.testing.assert_close(hgeo.exp0(model.hidden_manifold, seen[0]), model.embed(karate.graph, karate.features))
    model.conv2.register_forward_hook(lambda module, inputs, output: 0 * output)
    assert not bool(model(karate.graph, karate.features).any())


def test_a_model_is_one_function_however_it_is_called(karate):
    """With weights so large that points reach the radius limit, which once was another function under a hook."""
    logits, graph, x = {}, karate.graph, karate.features.to_dense()
    for space in ("ball:2,c=1", "stereo:2,k=-1"):
        torch.manual_seed(0)
        model = build("hat", karate, space).eval()
        with torch.no_grad():
            model.conv1.weight.mul_(50)
            model.conv2.weight.mul_(50)
            logits[space] = model(graph, x)
            chained = hgeo.nn.Sequential(model.conv1, model.conv2)(graph, x)
            torch._dynamo.reset()
            compiled = torch.compile(model, fullgraph=True, backend="eager")(graph, x)
            model.conv1.register_forward_hook(lambda *_: None)
            hooked = model(graph, x)
        assert torch.equal(hooked, logits[space])
        assert torch.equal(chained, logits[space])
        torch.testing.assert_close(compiled, logits[space], rtol=1e-5, atol=1e-4)
    assert logits["ball:2,c=1"].abs().max() > 100
    torch.testing.assert_close(logits["stereo:2,k=-1"], logits["ball:2,c=1"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("readout", ["log0", "linear"])
def test_hat_is_as_deep_as_asked_and_keeps_skips_and_a_map_of_each_nodes_own(readout, karate):
    torch.manual_seed(0)
    options = {"layers": 4, "residual": True, "self_weight": True, "readout": readout}
    model = build("hat", karate, "ball:3", **options).eval()
    graph, x = karate.graph, karate.features
    assert model.hops == 4
    assert [conv.residual for conv in (model.conv1, *model.between, model.conv2)] == [False, True, True, False]
    assert all(conv.self_weight for conv in (model.conv1, *model.between, model.conv2))
    hgeo.validate(model.hidden_manifold, model.embed(graph, x).detach())
    torch.testing.assert_close(model([graph] * 4, x), model(graph, x))
    with pytest.raises(ValueError, match="4 layers take a graph, or a list of 4 blocks; got 2"):
        model([graph] * 2, x)
    with pytest.raises(ValueError, match="layers is 1, expected a whole number from 2 on"):
        HATSettings(layers=1)


def test_a_hat_layer_with_zero_weights_returns_its_input_through_the_skip(karate):
    torch.manual_seed(0)
    deep = build("hat", karate, "ball:3", layers=3, residual=True, activation="relu").eval()
    flat = build("hat", karate, "ball:3", activation="relu").eval()
    flat.load_state_dict({name: value for name, value in deep.state_dict().items() if "between" not in name})
    with torch.no_grad():
        deep.between[0].weight.zero_()
        deep.between[0].bias.zero_()
    torch.testing.assert_close(deep(karate.graph, karate.features), flat(karate.graph, karate.features))
