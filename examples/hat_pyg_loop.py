"""HAT in a PyG training loop: a ``Data`` object with ``edge_index``, and ``HATConv`` where a ``GATConv`` was.

    python examples/hat_pyg_loop.py

hgeo's layers take ``(edge_index, x)``, the graph first; PyG's take ``(x, edge_index)``. Swapping them is an error
that says so.
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import hgeo


class HAT(torch.nn.Module):
    def __init__(self, in_channels, hidden, classes):
        super().__init__()
        ball = hgeo.PoincareBall(c=1.0, learnable=True)
        self.conv1 = hgeo.nn.HATConv(in_channels, hidden // 2, ball, heads=2, feat_drop=0.6, attn_drop=0.3, beta=0.1)
        self.conv2 = hgeo.nn.HATConv(hidden, classes, ball, in_manifold=self.conv1.manifold, activation=None, beta=0.1)

    def forward(self, x, edge_index):
        x = self.conv1(edge_index, x)
        return hgeo.log0(self.conv2.manifold, self.conv2(edge_index, x))


def main(smoke=False):
    try:
        source = hgeo.data.load("cora")
    except FileNotFoundError as error:
        print(f"{error}\nso this runs on the built-in hierarchy")
        source = hgeo.data.load("hierarchy")
    data = Data(x=source.features.to_dense(), edge_index=source.edge_index, y=source.labels)

    torch.manual_seed(0)
    model = HAT(data.num_features, 16, source.num_classes)
    optimizer = hgeo.optim.riemannian_adam(model, lr=0.01, curvature_lr=0.003, weight_decay=1e-3)
    for epoch in range(5 if smoke else 200):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[source.train_idx], data.y[source.train_idx])
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d}  loss {loss.item():.3f}  c {model.conv1.manifold.c.item():.3f}")

    model.eval()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(dim=1) == data.y
        # whom the first nodes of the training set listen to
        _, attention = model.conv1(data.edge_index, data.x, return_attention=True)
    print(f"{source.name}: test accuracy {right[source.test_idx].float().mean().item():.3f}")
    print(f"attention: {tuple(attention.edges.shape)} weights of edges, {tuple(attention.loops.shape)} of self-loops")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few epochs, to see that it runs")
    main(**vars(parser.parse_args()))
