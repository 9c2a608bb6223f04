"""One network of curved layers, written once; only the space string changes.

    python examples/space_as_hyperparameter.py
    python examples/space_as_hyperparameter.py "ball:3 x sphere:3"

Graph convolutions by gyromidpoints, batch normalisation, an activation and a hyperplane classifier, chained by
``hgeo.nn.Sequential``, which checks that each layer takes what the one before it gives. Features come from the built-in
hierarchy, and everything on the manifold is trained by Riemannian Adam, curvatures included.
"""

import argparse

import torch
from torch.nn import functional as F

import hgeo
from hgeo import nn

SPACES = (
    "ball:6",
    "ball:6,c=learn",
    "lorentz:6,c=learn",
    "stereo:6,k=learn",
    "sphere:6",
    "sproj:6",
    "euclidean:6",
    "ball:3,c=learn x sphere:1 x euclidean:2",
)


def network(in_dim, classes, space):
    manifold, dim = hgeo.space(space)
    return nn.Sequential(
        nn.GCNConv(in_dim, dim, manifold, aggregate="midpoint", activation=None),
        nn.BatchNorm(dim, manifold),
        nn.Activation(torch.tanh, manifold),
        nn.GCNConv(dim, dim, manifold, in_manifold=manifold, aggregate="midpoint", activation=None),
        nn.MLR(dim, classes, manifold),
    )


def train(space, data, epochs):
    torch.manual_seed(0)
    model = network(data.num_features, data.num_classes, space)
    optimizer = hgeo.optim.riemannian_adam(model, lr=0.02)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        scores = model(data.graph, data.features)
        F.cross_entropy(scores[data.train_idx], data.labels[data.train_idx]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = model(data.graph, data.features).argmax(-1)
    return model, float((predicted == data.labels)[data.test_idx].float().mean())


def main(spaces=SPACES, smoke=False):
    data = hgeo.data.hierarchy(depth=4) if smoke else hgeo.data.load("hierarchy")
    for place, space in enumerate(spaces):
        model, accuracy = train(space, data, epochs=3 if smoke else 100)
        if place == 0:
            print(model)
        print(f"{space:<42} test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, help="space strings (default: eight of them)")
    parser.add_argument("--smoke", action="store_true", help="a few epochs on a small tree, to see that it runs")
    main(**vars(parser.parse_args()))
