"""The manifold as a hyper-parameter: one network, six spaces, and only a string changes.

    python examples/swap_the_manifold.py
    python examples/swap_the_manifold.py "ball:2 x ball:2 x euclidean:2"

All dimensions are intrinsic: ``lorentz:4`` stores five numbers a point, ``ball:4`` four, and the network does not
notice. ``hgeo.train.fit`` is the loop of ``hgeo train``: early stopping on validation accuracy, and a warning in words
when attention collapses.
"""

import argparse

import torch

import hgeo

SPACES = ("ball:4", "ball:4,c=learn", "stereo:4,k=learn", "lorentz:4", "euclidean:4", "ball:2 x sphere:2")


class Network(torch.nn.Module):
    hops = 2  # its outputs look two steps far; the training loop uses that

    def __init__(self, in_dim, classes, space):
        super().__init__()
        manifold, dim = hgeo.space(space)
        options = {"beta": 0.3, "radius_norm": True, "self_score": "mean", "bias": "tangent", "feat_drop": 0.3}
        self.hidden = hgeo.nn.HATConv(in_dim, dim, manifold, activation_space="tangent", **options)
        self.flat = hgeo.nn.FromManifold(manifold)
        self.output = hgeo.nn.HATConv(dim, classes, hgeo.space("euclidean:1").manifold, activation=None, **options)

    def forward(self, graph, features):
        return self.output(graph, self.flat(self.hidden(graph, features)))


def main(spaces=SPACES, smoke=False):
    try:
        data = hgeo.data.load("cora")
    except FileNotFoundError as error:
        print(f"{error}\nso this runs on the built-in hierarchy")
        data = hgeo.data.load("hierarchy")
    settings = hgeo.models.TrainSettings(lr=0.03, epochs=5 if smoke else 150, patience=40)
    for space in spaces:
        torch.manual_seed(0)
        model = Network(data.num_features, data.num_classes, space)
        result = hgeo.train.fit(model, data, settings)
        curvatures = ", ".join(f"{k:.3f}" for k in result.curvatures) or "none of its own"
        print(
            f"{space:<20} test accuracy {result.test_accuracy:.3f}  epochs {result.epochs:3d}  curvature {curvatures}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=SPACES, help="space strings (default: six of them)")
    parser.add_argument("--smoke", action="store_true", help="a few epochs, to see that it runs")
    main(**vars(parser.parse_args()))
