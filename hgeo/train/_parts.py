"""A graph in parts, each held by a server of DGL's, for training over several machines."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hgeo._dgl import import_dgl
from hgeo.data import DataError, Dataset, Parts, check_part
from hgeo.graph import Graph, as_graph
from hgeo.train._neighbours import Drawn
from hgeo.train._team import Team, TeamError

__all__ = ["InParts", "check_parts"]

# A server ends with the process that started it, also where that is killed and could not say so. DGL names shared
# memory by the data alone, so that servers of one machine would write into each other's: it bears the server's port.
_SERVER = """
import os, sys, threading, time
parent = os.getppid()
def watch():
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
number, clients = map(int, sys.argv[1:3])
from hgeo._dgl import import_dgl
from hgeo.train._parts import name_memory_apart
name_memory_apart(sys.argv[3])
server = import_dgl("the server of a part", "dgl.distributed").DistGraphServer(
    number, os.environ["DGL_IP_CONFIG"], 1, clients, os.environ["DGL_CONF_PATH"], disable_shared_mem=True,
    graph_format=["csc"],
)
server.start()
"""


def name_memory_apart(word: str) -> None:
    """Puts a word behind the names of the memory that DGL's servers and processes of this machine share."""
    store = import_dgl("training on parts of a graph", "dgl.distributed.kvstore")
    make = store.empty_shared_mem
    store.empty_shared_mem = lambda name, *shape: make(name + word, *shape)


class InParts:
    """A partitioned graph: process i starts the server of part i, and asks all servers for what it needs.

    The processes tell each other where their servers are. Only labels, and a row of numbers a node in inference, are in
    the memory of each process.
    """

    def __init__(self, dataset: Dataset, team: Team) -> None:
        assert dataset.parts is not None
        self._graph = _joined(dataset.parts, team)
        self.num_nodes, self.num_features = dataset.num_nodes, dataset.num_features
        self._dtype = dataset.features.dtype

    def draw(
        self,
        wanted: Sequence[Tensor],
        fanouts: Sequence[int],
        seed: int | None = None,
        hidden: Sequence[Tensor | None] | None = None,
    ) -> Iterator[Drawn]:
        dgl = import_dgl("training on parts of a graph")
        if hidden is not None and any(edges is not None for edges in hidden):
            raise ValueError("of a graph in parts no edges can be hidden")
        sampler = dgl.dataloading.NeighborSampler(list(fanouts))
        for nodes in wanted:
            inputs, _, blocks = sampler.sample_blocks(self._graph, nodes.cpu())
            degrees = self._graph.ndata["degree"][inputs]  # the nodes of later blocks are the first of these
            yield Drawn(inputs, [_numbered(block, degrees) for block in blocks])

    def features(self, nodes: Tensor) -> Tensor:
        found: Tensor = self._graph.ndata["feat"][nodes].to(self._dtype)
        return found


def check_parts(dataset: Dataset, team: Team) -> None:
    """Refuse another number of processes than parts, and files that are not of this graph."""
    parts = dataset.parts
    if parts is None:
        return
    if team.size != parts.count:
        raise ValueError(
            f"{dataset.name} is in {parts.count} parts, and there is {team.size} process(es); start one a part, with "
            f"torchrun --nproc-per-node {parts.count}, or --nnodes {parts.count} on as many machines"
        )
    team.agree(
        "the graph that was cut into parts", torch.frombuffer(bytearray(parts.graph.encode()), dtype=torch.uint8)
    )
    problem: DataError | None = None
    try:
        check_part(parts, team.rank)
    except DataError as error:
        problem = error
    if team.largest(int(problem is not None)):  # nobody goes on where one cannot
        raise problem or TeamError("another process has files that are not of this graph; this one stops")


def _numbered(block: Any, degrees: Tensor) -> Graph:
    """A block whose sources are the first of the nodes with these degrees."""
    return as_graph(block).with_degrees(degrees[: block.num_dst_nodes()], degrees[: block.num_src_nodes()])


def _addresses(team: Team) -> list[tuple[str, int]]:
    """Where the server of each process will listen: the address by which it reaches the first one, and a free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as toward:
        toward.connect((os.environ.get("MASTER_ADDR", "127.0.0.1"), 9))  # nothing is sent
        ip = toward.getsockname()[0]
    with socket.socket() as free:
        free.bind((ip, 0))
        own = torch.tensor([[*map(int, ip.split(".")), free.getsockname()[1]]])
    return [(".".join(map(str, row[:4])), row[4]) for row in team.rows(own).tolist()]


_known: dict[Path, tuple[Any, ...]] = {}  # the graph that this process has joined, and what lasts as long


def _joined(parts: Parts, team: Team) -> Any:
    """The graph, of which this process starts the server of its part; a process joins one graph, once."""
    if parts.config in _known:
        return _known[parts.config][0]
    if _known:
        raise ValueError(f"this process has joined {next(iter(_known)).parent}; train on {parts.folder} in another one")
    dgl = import_dgl("training on parts of a graph")
    room = tempfile.TemporaryDirectory()
    ip_config = os.path.join(room.name, "ip_config.txt")
    addresses = _addresses(team)
    Path(ip_config).write_text("".join(f"{ip} {port}\n" for ip, port in addresses), encoding="utf-8")
    shared = {
        "DGL_DIST_MODE": "distributed", "DGL_IP_CONFIG": ip_config, "DGL_CONF_PATH": str(parts.config),
        "DGL_NUM_SERVER": "1", "DGL_NUM_CLIENT": str(team.size), "DGL_NUM_SAMPLER": "0", "DGL_GRAPH_FORMAT": "csc",
        "DGL_DIST_MAX_TRY_TIMES": "100", "DGLBACKEND": "pytorch",
    }  # fmt: skip
    words = [str(team.rank), str(team.size), str(addresses[team.rank][1])]
    silent: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, "-W", "ignore", "-c", _SERVER, *words]
    server = subprocess.Popen(command, env={**os.environ, **shared, "DGL_ROLE": "server"}, **silent)
    os.environ.update(shared, DGL_ROLE="client")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it tells what it does
            dgl.distributed.initialize(ip_config)
            here = dgl.distributed.rpc.get_machine_id()  # of several on one machine the first
            name_memory_apart(str(addresses[here][1]))
            book, *_ = dgl.distributed.load_partition_book(str(parts.config), here)
            graph = dgl.distributed.DistGraph("graph", gpb=book)
    except Exception as error:  # whatever DGL raises
        raise TeamError(f"the servers of the parts do not answer ({error}); process {team.rank} stops") from error
    _known[parts.config] = graph, server, room
    return graph
