"""HAT on Cora, in plain DGL style: a DGLGraph, a module, a loop.

    python examples/hat_cora_dgl.py

``HATConv`` takes the place of ``dgl.nn.GATConv``: it is called with the graph first, and adds the self-loops itself.
"""

import argparse

import torch
import torch.nn.functional as F

import hgeo


class HAT(torch.nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        ball = hgeo.PoincareBall(c=1.0)
        options = {"beta": 0.1, "radius_norm": True, "self_score": "mean", "bias": "tangent", "attn_drop": 0.3}
        self.first = hgeo.nn.HATConv(in_dim, hidden, ball, activation_space="tangent", feat_drop=0.7, **options)
        self.second = hgeo.nn.HATConv(
            hidden, classes, ball, in_manifold=ball, activation=None, feat_drop=0.5, **options
        )

    def forward(self, graph, features):
        points = self.second(graph, self.first(graph, features))
        return hgeo.log0(self.second.manifold, points)  # tangent coordinates are the logits


def main(smoke=False):
    try:
        data = hgeo.data.load("cora")
    except FileNotFoundError as error:
        print(f"{error}\nso this runs on the built-in hierarchy")
        data = hgeo.data.load("hierarchy")
    graph = data.dgl()
    label, train, val, test = (graph.ndata[name] for name in ("label", "train_mask", "val_mask", "test_mask"))
    features = data.features  # a sparse bag of words; graph.ndata["feat"], the same but dense, works too

    torch.manual_seed(0)
    model = HAT(data.num_features, 16, data.num_classes)
    optimizer = hgeo.optim.riemannian_adam(model, lr=0.01, weight_decay=1e-3)
    best_val = best_test = 0.0
    for epoch in range(10 if smoke else 300):
        model.train()
        loss = F.cross_entropy(model(graph, features)[train], label[train], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        model.eval()
        with torch.no_grad():
            right = model(graph, features).argmax(dim=1) == label
        if right[val].float().mean() > best_val:
            best_val, best_test = right[val].float().mean().item(), right[test].float().mean().item()
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d}  loss {loss.item():.3f}  val {best_val:.3f}  test {best_test:.3f}")
    print(f"{data.name}: test accuracy {best_test:.3f} at the best validation accuracy {best_val:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few epochs, to see that it runs")
    main(**vars(parser.parse_args()))
