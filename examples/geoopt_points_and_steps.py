"""A stock geoopt manifold, biases that are points on it, and Riemannian Adam.

    python examples/geoopt_points_and_steps.py

``geoopt.PoincareBall(learnable=True)`` goes into hgeo's layers as it is. A point bias is a
``geoopt.ManifoldParameter``: it is Möbius-added, and it must step along the manifold. ``hgeo.optim.riemannian_adam``
finds such points, the weights and the curvature, and gives each the step it needs; when the curvature moves, the
points are kept on the manifold that it moves to.
"""

import argparse
import warnings

import torch
import torch.nn.functional as F

import hgeo

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # geoopt 0.5.1 says 73 times that torch.jit.script is deprecated
    import geoopt


class Network(torch.nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        ball = geoopt.PoincareBall(c=1.0, learnable=True)
        self.conv = hgeo.nn.HATConv(in_dim, hidden, ball, beta=0.1, bias="point", feat_drop=0.5)
        self.classify = hgeo.nn.MLR(hidden, classes, ball)  # signed distances to hyperplanes; their points learn, too

    def forward(self, graph, features):
        return self.classify(self.conv(graph, features))


def main(smoke=False):
    try:
        data = hgeo.data.load("cora")
    except FileNotFoundError as error:
        print(f"{error}\nso this runs on the built-in hierarchy")
        data = hgeo.data.load("hierarchy")
    torch.manual_seed(0)
    model = Network(data.num_features, 4, data.num_classes)
    optimizer = hgeo.optim.riemannian_adam(model, lr=0.03, curvature_lr=0.01, weight_decay=5e-4)
    print("what steps how:", {group["kind"]: len(group["params"]) for group in optimizer.param_groups})

    train, test = data.train_idx, data.test_idx
    for epoch in range(5 if smoke else 150):
        loss = F.cross_entropy(model(data.graph, data.features)[train], data.labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 25 == 0:
            ball, bias = model.conv.manifold, model.conv.bias
            reach = (ball.c.sqrt() * bias.norm()).item()
            print(f"epoch {epoch:3d}  loss {loss.item():.3f}  c {ball.c.item():.4f}  bias at {reach:.3f} of the radius")

    for parameter in (model.conv.bias, model.classify.point):
        hgeo.validate(parameter.manifold, parameter.detach())  # raises, with the row, if a point has left the manifold
    model.eval()
    with torch.no_grad():
        right = model(data.graph, data.features).argmax(dim=1) == data.labels
    print(f"{data.name}: test accuracy {right[test].float().mean().item():.3f}, every point on its manifold")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few epochs, to see that it runs")
    main(**vars(parser.parse_args()))
