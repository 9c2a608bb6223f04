"""Link prediction: hide some links, embed the nodes in the ball, ask which pairs are linked.

    python examples/link_prediction.py
    python examples/link_prediction.py "euclidean:8"

The decoder is Fermi and Dirac's: a link is likely if the distance is below a radius that is learned. Hidden links are
taken out of the graph before training; the pairs to tell them from are drawn once, by the seed.
"""

import argparse

import torch
import torch.nn.functional as F

import hgeo
from hgeo.tasks import draw_non_links, link_scores, split_links


class Encoder(torch.nn.Module):
    def __init__(self, in_dim, space):
        super().__init__()
        manifold, dim = hgeo.space(space)
        options = {"beta": 0.1, "radius_norm": True, "self_score": "mean", "bias": "tangent"}
        self.first = hgeo.nn.HATConv(in_dim, dim, manifold, activation_space="tangent", feat_drop=0.3, **options)
        self.second = hgeo.nn.HATConv(dim, dim, manifold, in_manifold=manifold, activation=None, **options)

    def forward(self, graph, features):
        return self.second(graph, self.first(graph, features))


def main(space="ball:8", smoke=False):
    try:
        data = hgeo.data.load("cora")
    except FileNotFoundError as error:
        print(f"{error}\nso this runs on the built-in hierarchy")
        data = hgeo.data.load("hierarchy")
    split = split_links(data, val=0.05, test=0.10, seed=0)
    graph, features = split.dataset.graph, split.dataset.features  # without the hidden links

    torch.manual_seed(0)
    encoder = Encoder(data.num_features, space)
    decoder = hgeo.nn.FermiDiracDecoder(encoder.second.manifold)
    optimizer = hgeo.optim.riemannian_adam([encoder, decoder], lr=0.01, weight_decay=5e-4)

    best = {"roc_auc": 0.0}
    for epoch in range(5 if smoke else 200):
        encoder.train()
        points = encoder(graph, features)
        negatives = draw_non_links(split, split.train_pos.shape[1], seed=epoch)
        logits = decoder.logits(points, torch.cat([split.train_pos, negatives], dim=1))
        truth = torch.cat([torch.ones(split.train_pos.shape[1]), torch.zeros(negatives.shape[1])])
        loss = F.binary_cross_entropy_with_logits(logits, truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        encoder.eval()
        with torch.no_grad():
            points = encoder(graph, features)
            scores = link_scores(decoder(points, split.val_pos), decoder(points, split.val_neg))
            if scores["roc_auc"] > best["roc_auc"]:
                best = scores
                test = link_scores(decoder(points, split.test_pos), decoder(points, split.test_neg))
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d}  loss {loss.item():.3f}  val ROC-AUC {scores['roc_auc']:.3f}")
    print(
        f"{data.name} in {space}: test ROC-AUC {test['roc_auc']:.3f}, average precision {test['average_precision']:.3f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space", nargs="?", default="ball:8", help="where the nodes live (default: ball:8)")
    parser.add_argument("--smoke", action="store_true", help="a few epochs, to see that it runs")
    main(**vars(parser.parse_args()))
