"""Where a training runs, as environment variables say."""

import os
import re
from typing import NamedTuple, Self

from deepnmt.console import whole
from deepnmt.errors import UserError

MASTER = re.compile(r".+:[0-9]+")


class Place(NamedTuple):
    """The processes of a training.

    Attributes:
        processes: processes on this machine; 0 for one on each visible GPU, or one
        nodes: machines
        node: number of this machine, from 0
        master: HOST:PORT of machine 0
    """

    processes: int = 0
    nodes: int = 1
    node: int = 0
    master: str = ""

    @classmethod
    def of_environment(cls) -> Self:
        """Return the place that PROCESSES, NODES, NODE and MASTER describe. Raises `UserError` if one is faulty."""
        processes, nodes = (os.environ.get(name, "") for name in ("PROCESSES", "NODES"))
        number = whole("PROCESSES", 1, 1024)(processes) if processes else 0
        machines = whole("NODES", 1, 65536)(nodes) if nodes else 1
        if machines == 1:
            return cls(number)
        master = os.environ.get("MASTER", "")
        if not MASTER.fullmatch(master):
            raise UserError(f"MASTER must be HOST:PORT of machine 0, but is '{master}'")
        node = os.environ.get("NODE") or os.environ.get("SLURM_NODEID", "")
        return cls(number, machines, whole("NODE", 0, machines - 1)(node), master)
