"""Layers over any manifold, one a file.

A layer is an ``nn.Module`` that names ``in_manifold`` and ``manifold``, so that a chain of layers is checked when it is
built; its forward pass takes a graph first if it needs one. It asks the manifold's geometry for operations, and
``hgeo.graph`` for who talks to whom; no layer tests which space it is given.
"""

from hgeo.nn._decoders import DECODERS, decoder
from hgeo.nn._edges import Attention
from hgeo.nn.activation import Activation
from hgeo.nn.batchnorm import BatchNorm
from hgeo.nn.centroidclassifier import CentroidClassifier
from hgeo.nn.distancedecoder import DistanceDecoder
from hgeo.nn.dropout import Dropout
from hgeo.nn.embedding import Embedding
from hgeo.nn.features import feature_dropout, feature_linear
from hgeo.nn.fermidirac import FermiDiracDecoder
from hgeo.nn.frommanifold import FromManifold
from hgeo.nn.gcnconv import GCNConv
from hgeo.nn.hatconv import HATConv
from hgeo.nn.innerproductdecoder import InnerProductDecoder
from hgeo.nn.layernorm import LayerNorm
from hgeo.nn.linear import Linear
from hgeo.nn.lorentzconv import LorentzConv
from hgeo.nn.midpoint import Midpoint
from hgeo.nn.mlr import MLR
from hgeo.nn.pool import Pool
from hgeo.nn.residual import Residual
from hgeo.nn.rmsnorm import RMSNorm
from hgeo.nn.sageconv import SAGEConv
from hgeo.nn.sequential import Sequential
from hgeo.nn.setattention import SetAttention, set_attention
from hgeo.nn.tomanifold import ToManifold
from hgeo.nn.transfer import Transfer

__all__ = [
    "DECODERS",
    "MLR",
    "Activation",
    "Attention",
    "BatchNorm",
    "CentroidClassifier",
    "DistanceDecoder",
    "Dropout",
    "Embedding",
    "FermiDiracDecoder",
    "FromManifold",
    "GCNConv",
    "HATConv",
    "InnerProductDecoder",
    "LayerNorm",
    "Linear",
    "LorentzConv",
    "Midpoint",
    "Pool",
    "RMSNorm",
    "Residual",
    "SAGEConv",
    "Sequential",
    "SetAttention",
    "ToManifold",
    "Transfer",
    "decoder",
    "feature_dropout",
    "feature_linear",
    "set_attention",
]
