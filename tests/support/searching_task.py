"""A task that can search and nothing else."""

from __future__ import annotations

from fairseq.tasks import FairseqTask

from support.searched_models import FEW


class Task(FairseqTask):  # type: ignore[misc]
    """Has a target dictionary."""

    target_dictionary = FEW

    def __init__(self) -> None:
        super().__init__(None)
