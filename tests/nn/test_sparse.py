"""Products with sparse features: what dense ones give, differentiable as often as one likes."""

import weakref
from pathlib import Path

import torch

from hgeo.nn._sparse import _pattern, sparse_linear, with_values


def example() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, generator=generator, dtype=torch.float64).relu()
    x[3] = 0.0
    x[:, 2] = 0.0
    return x, torch.randn(4, 5, generator=generator, dtype=torch.float64, requires_grad=True)


def test_product_and_gradients_are_those_of_the_dense_matrix() -> None:
    x, weight = example()
    sparse = x.to_sparse_csr()
    torch.testing.assert_close(sparse_linear(sparse, weight), x @ weight.t())
    torch.autograd.gradcheck(lambda w: sparse_linear(sparse, w), weight)
    torch.autograd.gradgradcheck(lambda w: sparse_linear(sparse, w), weight)


def test_other_numbers_in_the_same_places_share_the_sorted_transpose() -> None:
    x, weight = example()
    sparse = x.to_sparse_csr()
    twice = with_values(sparse, 2 * sparse.values())
    assert _pattern(twice) is _pattern(sparse)
    (slope,) = torch.autograd.grad(sparse_linear(twice, weight).sum(), weight)
    torch.testing.assert_close(slope, (2 * x).sum(0).expand(4, 5))


def test_features_whose_places_were_edited_are_read_again() -> None:
    _, weight = example()
    sparse = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64).to_sparse_csr()
    weight = weight[:, :2].detach().requires_grad_()
    torch.autograd.grad(sparse_linear(sparse, weight).sum(), weight)
    sparse.col_indices().copy_(torch.tensor([1, 0]))
    out = sparse_linear(sparse, weight)
    torch.testing.assert_close(out, weight.t().flip(0))
    (slope,) = torch.autograd.grad(out[0].sum(), weight)
    torch.testing.assert_close(slope, torch.tensor([0.0, 1.0]).double().expand(4, 2))


def test_features_that_want_a_gradient_get_one() -> None:
    x, weight = example()
    sparse = x.to_sparse_csr().requires_grad_()
    (slope,) = torch.autograd.grad(sparse_linear(sparse, weight).sum(), sparse)
    dense = slope.to_dense()
    torch.testing.assert_close(dense[x != 0], weight.detach().sum(0).expand(7, 5)[x != 0])


def test_features_can_be_saved_and_loaded_after_use(tmp_path: Path) -> None:
    x, weight = example()
    sparse = x.to_sparse_csr()
    sparse_linear(sparse, weight)
    torch.save(sparse, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", weights_only=True)
    torch.testing.assert_close(sparse_linear(loaded, weight), x @ weight.t())


def test_a_pattern_does_not_keep_its_features() -> None:
    x, weight = example()
    sparse = x.to_sparse_csr()
    sparse_linear(sparse, weight)
    gone, pattern = weakref.ref(sparse), weakref.ref(_pattern(sparse))
    del sparse
    assert gone() is None
    assert pattern() is None


def test_features_may_be_made_or_used_in_inference_mode() -> None:
    x, weight = example()
    outside = x.to_sparse_csr()
    with torch.inference_mode():
        inside = x.to_sparse_csr()
        for sparse in (inside, outside, with_values(outside, outside.values())):
            torch.testing.assert_close(sparse_linear(sparse, weight), x @ weight.t())
    with torch.no_grad():
        torch.testing.assert_close(sparse_linear(inside, weight), x @ weight.t())
        torch.testing.assert_close(sparse_linear(with_values(inside, inside.values()), weight), x @ weight.t())
    (slope,) = torch.autograd.grad(sparse_linear(outside, weight).sum(), weight)
    torch.testing.assert_close(slope, x.sum(0).expand(4, 5))


def test_the_transpose_is_made_where_the_features_are() -> None:
    x, weight = example()
    sparse = x.to_sparse_csr()
    with torch.device("meta"):
        assert {part.device.type for part in _pattern(sparse).transpose} == {"cpu"}
    (slope,) = torch.autograd.grad(sparse_linear(sparse, weight).sum(), weight)
    torch.testing.assert_close(slope, x.sum(0).expand(4, 5))
