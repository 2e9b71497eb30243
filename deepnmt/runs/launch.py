"""torchrun without its report of forty lines, as the failed process has itself reported the fault."""

import logging
import sys
from signal import Signals

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.run import main as torchrun

from deepnmt.console import program, run
from deepnmt.errors import UserError
from deepnmt.training import launched

PROGRAM = program("train")


def main(arguments: list[str] | None = None) -> None:
    """Start processes as torchrun does, by its arguments. Exits with 1 if one of them fails.

    Raises:
        UserError: the machines cannot reach each other
    """
    # Whatever it logs as an error is in the exception too.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    launched.lead()
    try:
        torchrun(arguments)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:  # and could not say so itself
            print(f"{PROGRAM}: error: process {rank} was killed by {failure.signal_name()}", file=sys.stderr)
        sys.exit(1)
    except SignalException as error:
        sys.exit(128 + Signals(error.sigval))
    except (DistError, RendezvousError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise UserError(f"MASTER must be HOST:PORT of machine 0, with a port that is free, but: {reason}") from None


if __name__ == "__main__":
    run(main, PROGRAM)
