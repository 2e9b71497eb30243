"""`make check`: no import cycle in the package, and no import upwards from room to room.

Imports inside functions count; those for annotations alone (`if TYPE_CHECKING`) do not, and neither does `import
deepnmt`, by which a module may ask for registration: `deepnmt/__init__.py` knows all rooms and imports none of them
before it is asked to.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "deepnmt"
# From the ground up; a room may import those below it, and modules of its own. `a.b` is a room within the room a.
FLOORS = (
    ("errors", "limits", "pages", "reference"),
    ("beside",),
    ("console",),
    ("kernels", "literals", "text"),
    ("jobs", "options"),
    ("corpus", "data", "lr_schedulers", "model", "training"),
    ("criterions", "preparation", "pretraining", "recipe", "search"),
    ("checkpoints", "inspection", "translation_task"),
    ("dual", "engines", "fairseq_patches.signatures", "progressive", "reranking", "synthetic"),
    ("fairseq_patches.patch",),
    ("fairseq_patches.checks", "fairseq_patches.hooks", "fairseq_patches.process"),
    ("fairseq_patches.fixes",),
    ("fairseq_patches", "translator"),
    ("export", "generation", "runs", "serving"),
    ("cli",),
    ("__main__",),
)


def modules(root: Path) -> dict[str, Path]:
    """Return the package's modules by their full names."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node: ast.AST, known: Mapping[str, Path]) -> Iterator[tuple[str, int]]:
    """Give the package's modules that a syntax tree imports, and the lines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports of the package are absolute"
            whole = [f"{child.module}.{alias.name}" for alias in child.names]
            names = [name if name in known else str(child.module) for name in whole]
        for name in names:
            if name in known and name != PACKAGE:
                yield name, child.lineno
        yield from imported(child, known)


def faults(root: Path) -> list[str]:
    """Return what is wrong with the imports of the package in a folder, a line each."""
    known = modules(root)
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

    def room_of(module: str) -> str:
        _, room, *inner = module.split(".")
        within = ".".join([room, *inner[:1]])
        return within if within in floor else room

    graph: dict[str, set[str]] = {}
    found = []
    for module, path in known.items():
        if module == PACKAGE:
            continue
        for target, line in imported(ast.parse(path.read_text("utf-8")), known):
            graph.setdefault(module, set()).add(target)
            here, there = room_of(module), room_of(target)
            place = f"{path.relative_to(root)}:{line}"
            if unknown := [room for room in (here, there) if room not in floor]:
                found.append(f"{place}: {unknown[0]} must stand on one of the floors in {Path(__file__).name}")
            elif here != there and floor[there] >= floor[here]:
                found.append(f"{place}: {here} must import from lower floors alone, but imports {target}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"imports must not form a cycle, but do: {' <- '.join(error.args[1])}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(__file__).resolve().parents[2])) or 0)
