"""HATConv is the paper's layer, on every backend, in every format, and the Euclidean one where space is flat."""

import copy
import dataclasses
import itertools

import geoopt
import pytest
import torch
import torch.nn.functional as F
from hat_by_hand import exp0 as exp0_by_hand
from hat_by_hand import hat
from torch._subclasses.fake_tensor import FakeTensorMode

import hgeo
from hgeo.graph import Distance, Graph, Midpoint, MobiusSum, TangentSum, Uniform, backends
from hgeo.nn import HATConv

EDGES = [(3, 1), (0, 1), (2, 2), (0, 2), (1, 0), (4, 1), (0, 1), (5, 4), (4, 3)]
NODES, IN_DIM, DIM = 6, 5, 3


def edge_index() -> torch.Tensor:
    return torch.tensor(EDGES).t().contiguous()


def features(seed: int = 0) -> torch.Tensor:
    return torch.randn(NODES, IN_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def layer(c: float = 0.7, seed: int = 0, **options) -> HATConv:
    torch.manual_seed(seed)
    return HATConv(IN_DIM, DIM, hgeo.PoincareBall(c, learnable=True), **options).double()


def by_hand(conv: HATConv, x: torch.Tensor, c: torch.Tensor | float, **options):
    words = {TangentSum: "tangent", MobiusSum: "mobius", Midpoint: "midpoint", Distance: "distance", Uniform: "uniform"}
    settings = dataclasses.asdict(conv.score) | dataclasses.asdict(conv.aggregate)
    settings |= {name: getattr(conv.finish, name) for name in ("activation", "activation_space")}
    settings |= {"heads": conv.heads, "merge": conv.merge}
    settings |= {"attention": words[type(conv.score)], "aggregate": words[type(conv.aggregate)]} | options
    if conv.log_beta is not None:
        settings["beta"] = conv.log_beta.exp()[0]
    if conv.bias is not None:
        settings[f"{conv.finish.bias}_bias"] = conv.bias
    return hat(EDGES, NODES, x, conv.weight, c, **settings)


def compare(conv: HATConv, atol: float = 1e-11) -> None:
    """Values, attention and gradients in the features and every parameter."""
    x = features().requires_grad_()
    c = conv.manifold.manifolds[0].c if conv.merge == "product" else conv.manifold.c
    with torch.no_grad():
        if conv.bias is not None:
            generator = torch.Generator().manual_seed(5)
            conv.bias.copy_(0.3 * torch.randn(conv.bias.shape, dtype=torch.float64, generator=generator))
            if conv.finish.bias == "point":
                conv.bias.copy_(exp0_by_hand(conv.bias.data, float(c)))
        if conv.log_beta is not None:
            conv.log_beta.fill_(0.4)
    y, attention = conv(edge_index(), x, return_attention=True)
    expected, weights = by_hand(conv, x, c)
    torch.testing.assert_close(y, expected, rtol=0, atol=atol)
    loops = {e[1]: w for e, w in weights.items() if isinstance(e, tuple)}
    for e in range(len(EDGES)):
        torch.testing.assert_close(attention.edges[e], torch.stack(weights[e]), rtol=0, atol=atol)
    for i in range(NODES):
        row = torch.stack(loops[i]) if i in loops else torch.zeros(attention.loops.shape[1], dtype=torch.float64)
        torch.testing.assert_close(attention.loops[i], row, rtol=0, atol=atol)

    only = conv(edge_index(), x)  # without attention a backend may take another way
    torch.testing.assert_close(only, expected, rtol=0, atol=atol)
    direction = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    inputs = {"x": x, **dict(conv.named_parameters())}
    ours = torch.autograd.grad((only * direction).sum(), list(inputs.values()), allow_unused=True)
    theirs = torch.autograd.grad((expected * direction).sum(), list(inputs.values()), allow_unused=True)
    for name, mine, true in zip(inputs, ours, theirs, strict=True):
        if true is not None:
            torch.testing.assert_close(mine, true, rtol=0, atol=100 * atol, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
@pytest.mark.parametrize(("heads", "merge"), [(1, "concat"), (2, "concat"), (2, "mean"), (2, "product")])
def test_it_is_the_paper_by_hand(backend: str, aggregate: str, heads: int, merge: str) -> None:
    compare(layer(heads=heads, merge=merge, aggregate=aggregate, backend=backend))


@pytest.mark.parametrize(
    "options",
    [
        {"self_score": "mean"},
        {"radius_norm": True},
        {"degree_norm": True},
        {"degree_norm": True, "aggregate": "mobius"},
        {"degree_norm": True, "aggregate": "midpoint"},
        {"attention": "uniform", "degree_norm": True},
        {"attention": "uniform", "aggregate": "midpoint"},
        {"beta": 0.3},
        {"beta": "learn"},
        {"activation": None},
        {"activation": torch.tanh, "activation_space": "ball"},
        {"activation_space": "tangent"},
        {"bias": "tangent"},
        {"bias": "tangent", "activation_space": "tangent", "merge": "mean", "heads": 2},
        {"bias": "point"},
        {"bias": "point", "activation_space": "tangent"},
        {"bias": "point", "merge": "product", "heads": 2},
        {"radius_norm": True, "self_score": "mean", "beta": 0.1, "bias": "tangent", "degree_norm": True},
        {"radius_norm": True, "self_score": "mean", "beta": "learn", "merge": "product", "heads": 2},
        {"steps": 2},
        {"steps": 3, "restart": 0.25, "degree_norm": True, "heads": 2},
        {"steps": 3, "restart": 0.0, "attention": "uniform", "bias": "point"},
        {"steps": 4, "radius_norm": True, "self_score": "mean", "merge": "product", "heads": 2},
    ],
    # Not str: the address of a function differs between the processes that share the tests.
    ids=lambda options: ",".join(f"{name}={getattr(value, '__name__', value)}" for name, value in options.items()),
)
def test_options_are_what_they_say_by_hand(backend: str, options: dict) -> None:
    compare(layer(backend=backend, **options))


@pytest.mark.parametrize("c", [0.05, 1.0, 3.0])
def test_any_curvature_is_the_paper_by_hand(backend: str, c: float) -> None:
    compare(layer(c=c, backend=backend, heads=2), atol=1e-10)


def test_edge_bias_is_added_to_the_scores_in_the_callers_order(backend: str) -> None:
    conv = layer(backend=backend)
    bias = torch.randn(len(EDGES), dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    x = features()
    expected, _ = by_hand(conv, x, conv.manifold.c, edge_bias=bias)
    for given in (bias, bias.unsqueeze(1)):
        y = conv(edge_index(), x, edge_bias=given)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(*(torch.autograd.grad(o.sum(), bias, retain_graph=True)[0] for o in (y, expected)))


def _formats():
    dgl = pytest.importorskip("dgl")
    import scipy.sparse

    src, dst = edge_index()
    adjacency = torch.sparse_coo_tensor(
        edge_index().flip(0), torch.ones(len(EDGES)), (NODES, NODES), check_invariants=True
    )
    matrix = scipy.sparse.coo_matrix((torch.ones(len(EDGES)).numpy(), edge_index().flip(0).numpy()), (NODES, NODES))
    return {
        "edge_index": edge_index(),
        "int32": edge_index().int(),
        "Graph": Graph(src, dst, num_src=NODES),
        "dgl": dgl.graph((src, dst), num_nodes=NODES),
        "dgl int32": dgl.graph((src, dst), num_nodes=NODES).int(),
        "block": dgl.to_block(dgl.graph((src, dst), num_nodes=NODES), torch.arange(NODES)),
        "coo": adjacency,
        "scipy": matrix,
    }


@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
def test_every_format_gives_the_same_answer_and_attention(backend: str, aggregate: str) -> None:
    conv, x = layer(backend=backend, aggregate=aggregate, heads=2), features()
    expected, attention = conv(edge_index(), x, return_attention=True)
    for name, graph in _formats().items():
        y, given = conv(graph, x, return_attention=True)
        torch.testing.assert_close(y, expected, msg=lambda m, n=name: f"{n}: {m}")
        torch.testing.assert_close(given.edges, attention.edges, msg=lambda m, n=name: f"{n}: {m}")
        torch.testing.assert_close(given.loops, attention.loops, msg=lambda m, n=name: f"{n}: {m}")


def test_a_block_gives_the_rows_of_its_destinations(backend: str) -> None:
    dgl = pytest.importorskip("dgl")
    conv, x = layer(backend=backend, heads=2), features()
    whole = conv(edge_index(), x)
    src, dst = edge_index()
    seeds = torch.tensor([1, 4])
    g = dgl.graph((src, dst), num_nodes=NODES)
    block = dgl.to_block(dgl.in_subgraph(g, seeds), seeds)
    torch.testing.assert_close(conv(block, x[block.srcdata[dgl.NID]]), whole[seeds])


def test_layers_chain_through_the_manifold() -> None:
    ball = hgeo.PoincareBall(1.0)
    first = HATConv(IN_DIM, 4, ball, heads=2).double()
    second = HATConv(first.output_dim, 2, ball, in_manifold=first.manifold).double()
    h = first(edge_index(), features())
    y = second(edge_index(), h)
    expected = HATConv.forward(  # Möbius matrix multiplication is linear in tangent coordinates
        _raw(second), edge_index(), hgeo.log0(ball, h)
    )
    torch.testing.assert_close(y, expected)


def test_a_samplers_blocks_feed_a_chain_of_layers_layer_by_layer() -> None:
    dgl = pytest.importorskip("dgl")
    ball = hgeo.PoincareBall(1.0)
    layers = [HATConv(IN_DIM, 4, ball).double(), HATConv(4, 2, ball, in_manifold=ball).double()]
    x, everything = features(), dgl.dataloading.MultiLayerFullNeighborSampler(2)
    whole = layers[1](edge_index(), layers[0](edge_index(), x))
    graph, seeds = dgl.graph(tuple(edge_index()), num_nodes=NODES), torch.tensor([4, 1])
    inputs, outputs, blocks = everything.sample_blocks(graph, seeds)
    h = x[inputs]
    for conv, block in zip(layers, blocks, strict=True):
        h = conv(block, h)
    torch.testing.assert_close(h, whole[outputs])
    with pytest.raises(TypeError, match=r"list of DGL graphs \(give each layer one"):
        layers[0](blocks, x[inputs])


def _raw(conv: HATConv) -> HATConv:
    twin = copy.deepcopy(conv)
    twin.in_manifold = None
    return twin


def test_lengths_survive_between_spaces_with_different_frames() -> None:
    torch.manual_seed(0)
    x = features()
    ball, hyperboloid = hgeo.PoincareBall(1.0), hgeo.Lorentz(c=1.0)
    onto = HATConv(IN_DIM, DIM, hyperboloid, in_manifold=ball, activation=None).double()
    within = HATConv(IN_DIM, DIM, ball, in_manifold=ball, activation=None).double()
    within.load_state_dict(onto.state_dict(), strict=False)
    points = hgeo.exp0(ball, x)
    as_ball = hgeo.math.lorentz_to_ball(onto(edge_index(), points), c=1.0)
    torch.testing.assert_close(as_ball, within(edge_index(), points))


OTHERS = {
    "lorentz": lambda: hgeo.Lorentz(c=0.5),
    "geoopt lorentz": lambda: geoopt.Lorentz(),
    "sphere": lambda: geoopt.Sphere(),
    "euclidean": lambda: geoopt.Euclidean(ndim=1),
    "scaled": lambda: geoopt.Scaled(hgeo.PoincareBall(1.0), 2.0),
    "sproj": lambda: hgeo.SphereProjection(0.5),
    "product": lambda: hgeo.Product((hgeo.PoincareBall(1.0), 2), (geoopt.Sphere(), 1)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("aggregate", ["tangent", "midpoint"])
def test_other_manifolds_attend_by_their_own_distance(name: str, aggregate: str) -> None:
    manifold = OTHERS[name]()
    torch.manual_seed(0)
    conv = HATConv(IN_DIM, DIM, manifold, aggregate=aggregate, activation=None, bias="point").double()
    x = 0.5 * features().requires_grad_()
    y, attention = conv(edge_index(), x, return_attention=True)
    p = hgeo.exp0(manifold, x @ conv.weight.t())
    looped = Graph(*edge_index(), num_src=NODES).with_self_loops()
    d = hgeo.dist(manifold, p[looped.row], p[looped.col])
    mass = torch.exp(-d)
    total = torch.zeros(NODES).double().index_add(0, looped.row, mass)
    edges, loops = looped.to_caller_order((mass / total[looped.row]).unsqueeze(1))
    torch.testing.assert_close(attention.edges, edges)
    torch.testing.assert_close(attention.loops, loops)
    assert manifold.check_point_on_manifold(y.detach()[0], atol=1e-6)
    for value in torch.autograd.grad(y.square().sum(), [x, conv.weight, conv.bias]):
        assert torch.isfinite(value).all()


def test_product_heads_may_have_manifolds_of_their_own() -> None:
    spaces = [hgeo.PoincareBall(1.0, learnable=True), geoopt.Sphere()]
    conv = HATConv(IN_DIM, DIM, spaces, heads=2, merge="product", activation=None).double()
    y, attention = conv(edge_index(), 0.3 * features(), return_attention=True)
    assert y.shape == (NODES, DIM + DIM + 1)
    assert attention.edges.shape == (len(EDGES), 1)
    parts = conv.manifold.factors(y)
    assert parts[0][0] is spaces[0]
    torch.testing.assert_close(parts[1][1].norm(dim=-1), torch.ones(NODES).double())
    y.sum().backward()
    assert spaces[0].stored_c.grad is not None


def test_stock_geoopt_balls_work_and_learn() -> None:
    ball = geoopt.PoincareBall(learnable=True)
    conv = HATConv(IN_DIM, DIM, ball).double()
    conv(edge_index(), features()).square().sum().backward()
    assert torch.isfinite(ball.isp_c.grad)
    assert ball.isp_c.grad != 0


def euclidean_layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Distance attention in flat space: w = softmax(-2|u_i - u_j|), Σ w u, ELU."""
    u = x @ weight.t()
    looped = Graph(*edge_index(), num_src=NODES).with_self_loops()
    mass = torch.exp(-hgeo.dist(hgeo.Stereographic(0.0), u[looped.row], u[looped.col]))
    total = torch.zeros(NODES).double().index_add(0, looped.row, mass)
    w = mass / total[looped.row]
    return F.elu(torch.zeros(NODES, DIM).double().index_add(0, looped.row, w.unsqueeze(1) * u[looped.col]))


@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
def test_at_curvature_zero_it_is_the_euclidean_layer(backend: str, aggregate: str) -> None:
    conv, x = layer(c=0.0, backend=backend, aggregate=aggregate), features().requires_grad_()
    y, flat = conv(edge_index(), x), euclidean_layer(x, conv.weight)
    torch.testing.assert_close(y, flat, rtol=1e-13, atol=1e-14)
    for ours, expected in zip(
        *(torch.autograd.grad(o.square().sum(), (x, conv.weight), retain_graph=True) for o in (y, flat)), strict=True
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)
    assert torch.isfinite(torch.autograd.grad(y.square().sum(), conv.manifold.stored_c)[0])


@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_small_curvature_converges_to_it_at_rate_one(aggregate: str, sign: float) -> None:
    x, errors = 0.3 * features(), []
    for size in (1e-2, 1e-3, 1e-4):
        torch.manual_seed(0)
        conv = HATConv(IN_DIM, DIM, hgeo.Stereographic(sign * size), aggregate=aggregate).double()
        errors.append(float((conv(edge_index(), x) - euclidean_layer(x, conv.weight)).detach().abs().max()))
    for large, small in itertools.pairwise(errors):
        assert 8 < large / small < 12


def test_uniform_attention_with_degree_norm_is_a_gcn() -> None:
    conv = layer(c=0.0, attention="uniform", degree_norm=True, activation=None)
    symmetric = torch.cat([edge_index(), edge_index().flip(0)], dim=1)
    x = features()
    looped = Graph(*symmetric, num_src=NODES).with_self_loops()
    adjacency = torch.zeros(NODES, NODES).double().index_put((looped.row, looped.col), torch.ones(()).double(), True)
    degree = adjacency.sum(1)
    gcn = adjacency / (degree.unsqueeze(0) * degree.unsqueeze(1)).sqrt() @ x @ conv.weight.t()
    torch.testing.assert_close(conv(symmetric, x), gcn)


def test_sparse_features_give_the_answer_of_dense_ones(backend: str) -> None:
    conv, x = layer(backend=backend), features().relu()
    expected = conv(edge_index(), x)
    (slope,) = torch.autograd.grad(expected.sum(), conv.weight)
    for sparse in (x.to_sparse(), x.to_sparse_csr()):
        y = conv(edge_index(), sparse)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), conv.weight)[0], slope)


@pytest.mark.parametrize("c", [0.7, 0.0])
@pytest.mark.parametrize("far", [1.0, 300.0])  # the second reaches the radius limit
@pytest.mark.parametrize(
    "options",
    [
        {"bias": "tangent", "activation_space": "tangent", "degree_norm": True},
        {"activation": None},
        {"bias": "point", "activation_space": "tangent"},
        {"activation_space": "ball"},
    ],
    ids=str,
)
def test_tangent_output_is_log0_of_the_points_and_tangent_input_reads_it(options: dict, c: float, far: float) -> None:
    ball = hgeo.PoincareBall(c)
    between_points = layer(c, in_manifold=ball, **options)
    between_rows = layer(c, in_manifold=ball, input="tangent", output="tangent", **options)
    with torch.no_grad():
        for conv in (between_points, between_rows):
            conv.weight.mul_(far)
    v = features().requires_grad_()
    ours = between_rows(edge_index(), v)
    expected = hgeo.log0(between_points.manifold, between_points(edge_index(), hgeo.exp0(ball, v)))
    if far > 1:  # at the limit log0 itself has few digits left
        torch.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)
        return
    torch.testing.assert_close(ours, expected)
    ours_slopes = torch.autograd.grad(ours.square().sum(), [v, between_rows.weight])
    torch.testing.assert_close(ours_slopes, torch.autograd.grad(expected.square().sum(), [v, between_points.weight]))


SPACES = ["ball:3", "ball:3,c=0", "stereo:3,k=-1", "stereo:3,k=1", "sproj:3,k=2", "lorentz:3", "klein:3", "sphere:3"]


@pytest.mark.parametrize("space", [*SPACES, "euclidean:3", "ball:1 x sphere:2"])
@pytest.mark.parametrize("radius", [0.5, 2.0, 3.5, 5.0])  # a great circle has 2π
def test_rows_of_any_length_are_log0_of_the_points_in_every_space(space: str, radius: float) -> None:
    manifold = hgeo.space(space).manifold
    points, rows = (
        HATConv(3, 3, manifold, attention="uniform", activation=None, output=output).double()
        for output in ("points", "tangent")
    )
    k = next((abs(float(part.curvature)) for part in hgeo.manifolds.parts(manifold, 3) if float(part.curvature)), 1.0)
    x = torch.nn.functional.normalize(features()[:, :3], dim=-1) * radius / (hgeo.frame_scale(manifold) * k**0.5)
    for conv in (points, rows):
        conv.weight.data.copy_(torch.eye(3))
    alone = torch.empty(2, 0, dtype=torch.long)
    torch.testing.assert_close(rows(alone, x), hgeo.log0(manifold, points(alone, x)), rtol=1e-6, atol=1e-7)


def test_logits_are_not_limited_like_points() -> None:
    alone, x = torch.empty(2, 0, dtype=torch.long), 100 * features()[:, :3]
    for space in SPACES:
        conv = HATConv(3, 3, hgeo.space(space).manifold, activation=None, output="logits").double()
        torch.testing.assert_close(conv(alone, x), x @ conv.weight.t())


def test_curvature_minus_one_is_the_same_by_any_name() -> None:
    outputs = []
    for manifold in (hgeo.PoincareBall(1.0), hgeo.Stereographic(-1.0), geoopt.PoincareBall(1.0)):
        torch.manual_seed(0)
        conv = HATConv(IN_DIM, DIM, manifold, output="tangent").double()
        with torch.no_grad():
            conv.weight.mul_(50)
        outputs.append(conv(edge_index(), features()))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(outputs[2], outputs[0], rtol=1e-5, atol=1e-5)  # geoopt keeps c in single precision


def test_a_layer_says_which_code_runs_it() -> None:
    graph = Graph(*edge_index(), num_src=NODES)
    words = str(layer(backend="torch").plan(graph))
    assert words.splitlines() == [
        "backend 'torch'",
        "  score     Distance()  (in one call)",
        "  aggregate TangentSum()  (in one call)",
        "  finish    Finish(activation=elu, activation_space='ball')",
    ]
    assert layer(backend="reference").plan(graph).one_call == ()
    walked = layer(backend="torch", steps=3).plan(graph)
    assert "a step at a time: the aggregate is TangentSum(steps=3)" in str(walked)
    watched = layer(backend="torch").plan(graph, return_attention=True)
    assert watched.why == "gradients are wanted through the weights"


def test_options_as_words_and_as_objects_give_the_same_layer() -> None:
    by_words = layer(beta=0.3, radius_norm=True, degree_norm=True, steps=2)
    described = layer(score=Distance(0.3, radius_norm=True), aggregate=TangentSum(degree_norm=True, steps=2))
    assert (by_words.score, by_words.aggregate) == (described.score, described.aggregate)
    torch.testing.assert_close(by_words(edge_index(), features()), described(edge_index(), features()), rtol=0, atol=0)
    assert layer(attention="uniform").score == layer(score="uniform").score == Uniform()


def test_a_users_own_score_works() -> None:
    def by_inner_product(work):
        u, graph = work.u, work.graph
        return (u.index_select(0, graph.row) * u.index_select(0, graph.col)).sum(-1)

    conv, x = layer(score=by_inner_product, activation=None, output="logits"), features()
    _, attention = conv(edge_index(), x, return_attention=True)
    u = x @ conv.weight.t()
    (into_three,) = (e for e, (_, destination) in enumerate(EDGES) if destination == 3)
    scores = torch.stack([u[EDGES[into_three][0]] @ u[3], u[3] @ u[3]])
    torch.testing.assert_close(torch.stack([attention.edges[into_three, 0], attention.loops[3, 0]]), scores.softmax(0))


def test_a_part_of_a_graph_that_is_told_degrees_and_radius_gives_the_whole_graphs_rows() -> None:
    graph, x = Graph(*edge_index(), num_src=NODES), features()
    conv = layer(radius_norm=True, degree_norm=True)
    sources = torch.tensor([2, 0, 3, 1])  # node 2 and those it listens to
    inside = torch.tensor([[0, 1], [0, 0]])
    looped = graph.with_self_loops()
    part = Graph(
        *inside, num_src=4, num_dst=1,
        in_degrees=looped.in_degrees[sources[:1]], out_degrees=looped.out_degrees[sources],
    )  # fmt: skip
    radius = (x @ conv.weight.t()).norm(dim=-1).mean().view(1)
    torch.testing.assert_close(conv(part, x[sources], mean_radius=radius), conv(graph, x)[2:3])


def test_dropout_acts_in_training_only_and_keeps_the_mean() -> None:
    conv = layer(feat_drop=0.5, attn_drop=0.5, c=0.0, activation=None, attention="uniform")
    x = features()
    expected = conv.eval()(edge_index(), x)
    torch.testing.assert_close(conv(edge_index(), x), expected)
    conv.train()
    torch.manual_seed(1)
    for given in (x, x.to_sparse(), x.to_sparse_csr()):
        runs = torch.stack([conv(edge_index(), given).detach() for _ in range(300)])
        assert not torch.equal(runs[0], runs[1])
        assert (runs.mean(0) - expected).abs().max() < 6 * float(runs.std(0).max()) / 300**0.5


def test_dropout_of_all_a_nodes_weights_gives_the_origin() -> None:
    conv = layer(attn_drop=0.999999).train()
    torch.manual_seed(0)
    assert (conv(edge_index(), features()) == 0).all()


def test_learned_beta_stays_positive_and_has_one_a_head() -> None:
    conv = layer(beta="learn", heads=2)
    assert conv.log_beta.shape == (2,)
    optimizer = torch.optim.SGD(conv.parameters(), lr=100.0)
    conv(edge_index(), features()).sum().backward()
    optimizer.step()
    assert not conv.log_beta.isinf().any()


def test_the_manifold_is_part_of_the_layer() -> None:
    ball = hgeo.PoincareBall(1.0, learnable=True)
    conv = HATConv(IN_DIM, DIM, ball, bias="point")
    assert any(p is ball.stored_c for p in conv.parameters())
    assert "manifold.stored_c" in conv.state_dict()
    assert isinstance(conv.bias, geoopt.ManifoldParameter)
    assert conv.bias.manifold is ball
    source = hgeo.PoincareBall(2.0, learnable=True)
    assert any(p is source.stored_c for p in HATConv(IN_DIM, DIM, ball, in_manifold=source).parameters())
    products = HATConv(IN_DIM, DIM, ball, heads=2, merge="product", bias="point")
    assert sum(p is ball.stored_c for p in products.parameters()) == 1
    assert products.bias.manifold is products.manifold


def test_layers_may_share_a_curvature() -> None:
    ball = hgeo.PoincareBall(1.0, learnable=True)
    model = torch.nn.ModuleList([HATConv(IN_DIM, DIM, ball), HATConv(DIM, DIM, ball, in_manifold=ball)])
    assert sum(p is ball.stored_c for p in model.parameters()) == 1
    x = features().float()
    model[1](edge_index(), model[0](edge_index(), x)).sum().backward()
    assert ball.stored_c.grad is not None


@pytest.mark.parametrize("bias", ["none", "tangent", "point"])
def test_copies_and_saved_states_are_the_same_layer(bias: str) -> None:
    conv, x = layer(bias=bias, beta="learn", heads=2), features()
    with torch.no_grad():
        conv.log_beta.fill_(0.2)
    expected = conv(edge_index(), x)
    twin = copy.deepcopy(conv)
    torch.testing.assert_close(twin(edge_index(), x), expected, rtol=0, atol=0)
    if bias == "point":
        assert twin.bias.manifold is twin.manifold
        assert twin.manifold is not conv.manifold
    fresh = layer(c=0.1, seed=1, bias=bias, beta="learn", heads=2)
    fresh.load_state_dict(conv.state_dict())
    torch.testing.assert_close(fresh(edge_index(), x), expected, rtol=0, atol=0)


def test_its_repr_shows_spaces_and_options_that_are_not_the_defaults() -> None:
    line = str(HATConv(8, 4, hgeo.PoincareBall(0.5), heads=2, beta=0.1, output="tangent"))
    assert "R:8 → ball:8,c=0.5, heads=2, score=Distance(beta=0.1), output='tangent'" in line
    assert "merge" not in line


def test_autocast_multiplies_matrices_in_half_precision_and_measures_distances_in_float32() -> None:
    conv, x = layer().float(), features().float()
    exact = conv(edge_index(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = conv(edge_index(), x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, exact, rtol=0.05, atol=0.02)


def test_a_bfloat16_layer_runs() -> None:
    conv, x = layer().bfloat16(), features().bfloat16()
    y = conv(edge_index(), x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), conv.double()(edge_index(), x.double()), rtol=0.05, atol=0.02)


def test_graphs_without_nodes_or_edges_work(backend: str) -> None:
    conv = layer(backend=backend)
    none = torch.empty(2, 0, dtype=torch.long)
    alone = conv(none, features())
    expected = F.elu(hgeo.exp0(conv.manifold, features() @ conv.weight.t()))
    torch.testing.assert_close(alone, expected)
    empty = conv(none, torch.empty(0, IN_DIM, dtype=torch.float64))
    assert empty.shape == (0, DIM)


@pytest.mark.parametrize(
    "options", [{}, {"radius_norm": True, "self_score": "mean"}, {"aggregate": "midpoint"}], ids=str
)
def test_a_nan_reaches_only_the_nodes_that_it_is_sent_to(backend: str, options: dict) -> None:
    conv, x = layer(backend=backend, **options), features()
    clean = conv(edge_index(), x)
    x[3] = float("nan")
    y = conv(edge_index(), x)
    assert y[[1, 3]].isnan().all()
    others = [0, 2, 4, 5]
    assert not y[others].isnan().any()
    if not options.get("radius_norm"):
        torch.testing.assert_close(y[others], clean[others])


def test_points_at_the_boundary_and_at_the_origin_have_finite_gradients(backend: str) -> None:
    for size in (0.0, 1e-8, 1e3):
        conv = layer(c=1.0, backend=backend, self_score="mean", bias="point")
        x = (size * features()).requires_grad_()
        y = conv(edge_index(), x)
        assert (y.norm(dim=-1) < 1).all()
        for value in torch.autograd.grad(y.sum(), [x, *conv.parameters()]):
            assert torch.isfinite(value).all()


@pytest.mark.parametrize(
    ("name", "aggregate", "how"),
    [
        ("reference", "tangent", "eager"),
        ("torch", "tangent", "aot_eager"),
        ("fused", "tangent", "aot_eager"),
        ("torch", "mobius", "eager"),
        ("torch", "midpoint", "eager"),
        ("fused", "steps", "aot_eager"),
    ],
)
def test_it_compiles_to_one_graph_on_either_kind_of_graph(name: str, aggregate: str, how: str) -> None:
    if backends()[name] is not None:
        pytest.skip(f"backend {name}: {backends()[name]}")
    torch._dynamo.reset()
    options = {"steps": 3} if aggregate == "steps" else {"aggregate": aggregate}
    conv, x = layer(backend=name, self_score="mean", bias="point", **options), features()
    compiled = torch.compile(conv, fullgraph=True, backend=how)
    for graph in (edge_index(), Graph(*edge_index(), num_src=NODES)):
        y, expected = compiled(graph, x), conv(graph, x)
        torch.testing.assert_close(y, expected)
        ours = torch.autograd.grad(y.square().sum(), list(conv.parameters()))
        for mine, true in zip(ours, torch.autograd.grad(expected.square().sum(), list(conv.parameters())), strict=True):
            torch.testing.assert_close(mine, true)


def test_many_steps_end_in_personalised_pagerank(backend: str) -> None:
    conv, x = layer(steps=200, restart=0.2, activation=None, backend=backend), features()
    y, attention = conv(edge_index(), x, return_attention=True)
    source, destination = edge_index()
    weights = torch.diag(attention.loops[:, 0].detach())
    weights.index_put_((destination, source), attention.edges[:, 0].detach(), accumulate=True)
    expected = 0.2 * torch.linalg.solve(torch.eye(NODES, dtype=torch.float64) - 0.8 * weights, x @ conv.weight.t())
    torch.testing.assert_close(hgeo.log0(conv.manifold, y), expected, rtol=1e-9, atol=1e-9)


def test_each_of_several_steps_drops_other_weights() -> None:
    conv, x = layer(steps=2, restart=0.0, attn_drop=0.5, activation=None, attention="uniform"), features()
    ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    x[1:] = 0
    torch.manual_seed(0)
    heard = torch.stack([hgeo.log0(conv.manifold, conv(ring, x))[0].norm() for _ in range(400)])
    # node 0 hears itself over its loop, twice: one draw for both steps would keep it every second time
    assert abs(float((heard > 0).double().mean()) - 0.25) < 0.07


@pytest.mark.parametrize(
    "options", [{}, {"merge": "product", "aggregate": "mobius", "bias": "tangent"}, {"steps": 3}], ids=str
)
def test_it_runs_on_fake_cuda_tensors(options: dict) -> None:
    conv = layer(heads=2, self_score="mean", radius_norm=True, degree_norm=True, backend="torch", **options)
    with FakeTensorMode(), torch.no_grad():
        state = {name: torch.empty(p.shape, device="cuda") for name, p in conv.named_parameters()}
        graph, x = torch.zeros(2, 9, dtype=torch.long, device="cuda"), torch.empty(NODES, IN_DIM, device="cuda")
        y, attention = torch.func.functional_call(conv, state, (graph, x), {"return_attention": True})
        assert y.shape == (NODES, 2 * DIM)
        assert attention.edges.shape[0] == 9
        assert attention.loops.shape[0] == NODES
        assert y.device.type == attention.edges.device.type == "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
def test_a_gpu_gives_the_answer_of_the_cpu(backend: str, aggregate: str) -> None:
    if backends("cuda")[backend] is not None:
        pytest.skip(f"backend {backend}: {backends('cuda')[backend]}")
    conv, x = layer(backend=backend, aggregate=aggregate, heads=2, self_score="mean", bias="point"), features()
    here = conv(edge_index(), x)
    expected = torch.autograd.grad(here.square().sum(), list(conv.parameters()))
    there = conv.cuda()(edge_index().cuda(), x.cuda())
    torch.testing.assert_close(there.cpu(), here)
    for result, value in zip(torch.autograd.grad(there.square().sum(), list(conv.parameters())), expected, strict=True):
        torch.testing.assert_close(result.cpu(), value)


def _wrong_device() -> None:
    layer()(Graph(*edge_index(), num_src=NODES).to("meta"), features())


def _hetero() -> None:
    dgl = pytest.importorskip("dgl")
    g = dgl.heterograph({("a", "to", "b"): ([0], [0]), ("b", "to", "a"): ([0], [0])})
    layer()(g, features())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: layer()(features(), edge_index()), TypeError, r"arguments are swapped.*layer\(graph, x\)"),
        (lambda: layer()(edge_index(), features()[:4]), ValueError, "id 5 is out of range: there are 4"),
        (
            lambda: layer()(Graph(*edge_index(), num_src=NODES), features()[:4]),
            ValueError,
            r"row for each of the 6 source nodes.*\(4, 5\)",
        ),
        (lambda: layer()(edge_index(), features()[:, :3]), ValueError, r"5 numbers a node.*\(6, 3\)"),
        (lambda: layer()(edge_index(), features().long()), TypeError, r"int64.*x.float\(\)"),
        (lambda: layer()(edge_index(), features().float()), TypeError, r"float32.*float64.*layer.to\(x.dtype\)"),
        (lambda: layer()(edge_index() - 1, features()), ValueError, "id -1 is out of range"),
        (lambda: layer()("cora", features()), TypeError, "cannot read a graph from str"),
        (lambda: layer()(edge_index(), [1.0]), TypeError, "x must be a tensor.*list"),
        (_wrong_device, ValueError, "x is on cpu, the graph on meta"),
        (_hetero, ValueError, "HeteroGraphConv.*HeteroConv.*to_homogeneous"),
        (
            lambda: layer()(edge_index(), features(), edge_bias=torch.ones(3)),
            ValueError,
            r"edge_bias must have shape \(9,\).*got \(3,\)",
        ),
        (
            lambda: layer()(edge_index(), features(), edge_bias=torch.ones(9, device="meta")),
            ValueError,
            "edge_bias is on meta, the graph on cpu",
        ),
        (lambda: layer()(edge_index(), features(), edge_bias=[1.0] * 9), TypeError, "edge_bias must be a tensor.*list"),
        (lambda: layer()(edge_index(), features()[0]), ValueError, r"row a node.*got shape \(5,\)"),
        (
            lambda: layer()(edge_index(), (features()[:3], features())),
            ValueError,
            "source id 5 is out.*shapes .3, 5. and",
        ),
        (lambda: layer(backend="fast"), ValueError, "backend must be one of 'auto', 'fused', .*, got 'fast'"),
        (lambda: layer(activation="elu"), TypeError, "activation must be a function of tensors or None, got 'elu'"),
        (lambda: layer(heads=0), ValueError, "heads must be a whole number"),
        (lambda: layer(heads=2.0), ValueError, "heads must be a whole number of at least 1, got 2.0"),
        (lambda: layer(merge="sum"), ValueError, "merge must be one of 'concat', 'mean', 'product', got 'sum'"),
        (lambda: layer(aggregate="max"), ValueError, "aggregate must be one of"),
        (lambda: layer(beta=-1.0), ValueError, "beta must be a positive number or 'learn', got -1.0"),
        (lambda: layer(beta=float("nan")), ValueError, "beta must be a positive number"),
        (lambda: layer(attn_drop=1.5), ValueError, r"attn_drop must lie in \[0, 1\), got 1.5"),
        (lambda: layer(score=Distance(), beta=0.1), ValueError, r"beta belongs into score=Distance\(beta=…\)"),
        (lambda: layer(score=Distance), ValueError, "score must be one of 'distance', 'uniform', or Distance or Uni"),
        (lambda: layer(steep=1), TypeError, "HATConv: there is no option 'steep'"),
        (lambda: layer(output="both"), ValueError, "output must be one of 'points', 'tangent', 'logits'"),
        (lambda: layer(input="logits"), ValueError, "input must be one of 'points', 'tangent', got 'logits'"),
        (lambda: layer(steps=0), ValueError, "steps must be a whole number of at least 1, got 0"),
        (lambda: layer(restart=1.0), ValueError, r"restart must lie in \[0, 1\), got 1.0"),
        (
            lambda: layer(steps=2, aggregate="mobius"),
            ValueError,
            "several steps.*aggregate='tangent' only, got 'mobius'",
        ),
        (
            lambda: layer(steps=2)(Graph(*edge_index(), num_src=NODES, num_dst=5), features()),
            ValueError,
            "2 steps need a graph whose sources are its destinations, got a block from 6 to 5 nodes; use steps=1",
        ),
        (lambda: layer(bias="yes"), ValueError, "bias must be one of 'none', 'tangent', 'point'"),
        (lambda: HATConv(IN_DIM, DIM, "ball:3"), TypeError, r"expected a geoopt manifold.*hgeo.space"),
        (
            lambda: HATConv(IN_DIM, DIM, hgeo.Lorentz(), aggregate="mobius"),
            ValueError,
            "needs Möbius addition.*lorentz",
        ),
        (lambda: HATConv(IN_DIM, DIM, hgeo.Lorentz(), activation_space="ball"), ValueError, "needs ball coordinates"),
        (
            lambda: HATConv(IN_DIM, DIM, [hgeo.PoincareBall()] * 3, heads=2, merge="product"),
            ValueError,
            "one a head: got 3 for 2",
        ),
        (lambda: HATConv(IN_DIM, DIM, [hgeo.PoincareBall()] * 2, heads=2), ValueError, "merge='product'"),
        (
            lambda: HATConv(IN_DIM, 3, hgeo.Product((hgeo.PoincareBall(), 3)), heads=2),
            ValueError,
            "dimension is fixed once made",
        ),
    ],
)
def test_wrong_arguments_get_one_clear_error(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


class Unmeasured(geoopt.Manifold):
    """A flat space that maps but does not measure."""

    name = "Unmeasured"
    ndim = 1
    reversible = False

    def _check_point_on_manifold(self, x, *, atol=1e-5, rtol=1e-5):
        return True, None

    _check_vector_on_tangent = _check_point_on_manifold

    def origin(self, *size, dtype=None, device=None, seed=42):
        return torch.zeros(*size, dtype=dtype, device=device)

    def projx(self, x):
        return x

    def proju(self, x, u):
        return u

    egrad2rgrad = proju

    def inner(self, x, u, v=None, *, keepdim=False):
        return (u * (u if v is None else v)).sum(-1, keepdim=keepdim)

    def retr(self, x, u):
        return x + u

    expmap = retr

    def logmap(self, x, y):
        return y - x

    def transp(self, x, y, v):
        return v


def test_a_manifold_without_a_distance_is_refused_when_the_layer_is_made() -> None:
    with pytest.raises(TypeError, match=r"Unmeasured.dist is not implemented"):
        HATConv(IN_DIM, DIM, Unmeasured())
    conv = HATConv(IN_DIM, DIM, Unmeasured(), attention="uniform").double()  # which needs none
    assert torch.isfinite(conv(edge_index(), features())).all()


@pytest.mark.parametrize("aggregate", ["tangent", "mobius", "midpoint"])
def test_a_layer_trains_on_cora_or_where_it_is_not_on_the_built_in_hierarchy(aggregate: str) -> None:
    data = hgeo.data.load("cora" if "cora" in hgeo.data.available()[1] else "hierarchy")
    ball = hgeo.PoincareBall(1.0, learnable=True)
    conv = HATConv(data.num_features, 16, ball, aggregate=aggregate)
    y = conv(data.graph, data.features)
    y.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in conv.parameters())


def test_messages_name_what_was_given() -> None:
    ball = hgeo.PoincareBall()
    edge_index = torch.tensor([[0, 1, 4], [1, 2, 0]])
    with pytest.raises(ValueError, match=r"id 4 is out of range.*x, of shape \(3, 5\)"):
        HATConv(5, 4, ball)(edge_index, torch.randn(3, 5))
    with pytest.raises(ValueError, match="the graph on meta"):
        HATConv(5, 4, ball)(edge_index.to("meta"), torch.randn(5, 5))
    with pytest.raises(TypeError, match=r"a Space.*give its \.manifold"):
        HATConv(5, 4, hgeo.space("ball:4"))
    with pytest.raises(ValueError, match="feat_drop must lie in"):
        HATConv(5, 4, ball, feat_drop="a")
    with pytest.raises(ValueError, match="radius_norm must be one of False, True"):
        HATConv(5, 4, ball, radius_norm="yes")
    with pytest.raises(TypeError, match="edge_bias must be real"):
        HATConv(5, 4, ball)(edge_index, torch.randn(5, 5), edge_bias=torch.zeros(3, dtype=torch.complex64))
    with torch.autocast("cpu"), pytest.raises(TypeError, match=r"x is torch\.float64"):
        HATConv(5, 4, ball)(edge_index, torch.randn(5, 5, dtype=torch.float64))


@pytest.mark.parametrize("radius_norm", [False, True])
def test_a_layer_is_a_function_of_its_parameters_for_torch_func(radius_norm: bool) -> None:
    conv, x = layer(heads=2, radius_norm=radius_norm, backend="reference"), features()
    graph = Graph(*edge_index(), num_src=NODES)

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(conv, {"weight": weight}, (graph, x)).square().sum()

    (expected,) = torch.autograd.grad(loss(conv.weight), conv.weight)
    torch.testing.assert_close(torch.func.grad(loss)(conv.weight.detach()), expected)


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_it_runs_on_fake_cpu_tensors(name: str) -> None:
    conv = layer(heads=2, radius_norm=True, backend=name)
    with FakeTensorMode(), torch.no_grad():
        state = {name: torch.empty(p.shape, dtype=p.dtype) for name, p in conv.named_parameters()}
        graph, x = torch.zeros(2, 9, dtype=torch.long), torch.empty(NODES, IN_DIM, dtype=torch.float64)
        assert torch.func.functional_call(conv, state, (graph, x)).shape == (NODES, 2 * DIM)
