"""The server of `support.warm`: imports fairseq and the package, then becomes each program that it is asked for.

    python -m support.warm_server SOCKET

A program runs in a fork, which has the arguments, environment, folder, limits, ignored signals and streams of whoever
asks, and to which fairseq seems not to be imported until it imports it. The server ends with its standard input.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.util
import logging
import marshal
import os
import resource
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Optional

FAIRSEQ = ("fairseq", "fairseq_cli")
# The modules of the server by name must outlive their places in `sys.modules`.
KEPT: list[Any] = []


class Imported(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives fairseq, as the server has imported it, and its handlers of the log to the first that imports it."""

    def __init__(self) -> None:
        self.modules = {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in FAIRSEQ}
        root = logging.getLogger()
        self.level, self.handlers = root.level, root.handlers[:]
        self.specs = {name: module.__spec__ for name, module in self.modules.items()}
        root.handlers.clear()
        root.setLevel(logging.WARNING)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        if name not in FAIRSEQ:
            return None
        sys.meta_path.remove(self)
        sys.modules.update(self.modules)
        root = logging.getLogger()
        if not root.handlers:
            root.handlers.extend(self.handlers)
            root.setLevel(self.level)
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `importlib.abc.Loader`."""
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system changes in a module; it has been executed."""
        module.__spec__ = self.specs[module.__name__]


def import_all() -> None:
    """Import what most programs do, as fairseq-train does."""
    importlib.import_module("fairseq_cli.train")  # sets up the logging, before the rest of fairseq
    import torch._dynamo  # torch imports its compiler, which takes seconds, with the first optimizer
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import deepnmt
    from support.hydra_store import share_configurations

    deepnmt.register()
    share_configurations()
    torch.set_num_threads(1)
    # The first one looks for Hydra's plug-ins, and reads what most trainings have in common.
    words = ["DATA", "--arch=dlcl_transformer", "--optimizer=adam", "--criterion=label_smoothed_cross_entropy"]
    for task in ("translation", "deep_translation"):
        args = options.parse_args_and_arch(options.get_training_parser(), [*words, f"--task={task}"])
        convert_namespace_to_omegaconf(args)


def serve(path: str) -> Optional[tuple[Any, ...]]:
    """Fork for each request; returns in each fork with the request, and in the server never but at the end, with None.

    Args:
        path: of the socket
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, None)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
    running: dict[int, socket.socket] = {}  # by process
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                asking, _ = listener.accept()
                request, streams = receive(asking)
                process = os.fork()
                if process == 0:
                    os.setpgid(0, 0)
                    selector.close()
                    for other in (listener, asking, *running.values()):
                        other.close()
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                        os.close(stream)
                    return request
                for stream in streams:
                    os.close(stream)
                running[process] = asking
                selector.register(asking, selectors.EVENT_READ, process)
                selector.register(os.pidfd_open(process), selectors.EVENT_READ, -process)
            elif key.data is None:
                for process in running:
                    tell(process, signal.SIGKILL)
                return None
            elif key.data > 0:
                # Signals that the other has been sent, or its end.
                numbers = key.fileobj.recv(64)  # type: ignore[union-attr]
                for number in numbers or [signal.SIGKILL]:
                    tell(key.data, number)
                if not numbers:
                    selector.unregister(key.fileobj)
            else:
                process = -key.data
                selector.unregister(key.fileobj)
                os.close(key.fd)
                asking = running.pop(process)
                _, status = os.waitpid(process, 0)
                if asking in (kept.fileobj for kept in selector.get_map().values()):
                    selector.unregister(asking)
                    asking.sendall(marshal.dumps(os.waitstatus_to_exitcode(status)))
                asking.close()


def receive(asking: socket.socket) -> tuple[tuple[Any, ...], Sequence[int]]:
    """Return a request and the three standard streams that come with it."""
    streams = array.array("i", [0, 0, 0])
    data, messages, _, _ = asking.recvmsg(8, socket.CMSG_SPACE(streams.itemsize * 3))
    streams[:] = array.array("i", messages[0][2])
    size = int.from_bytes(data, "little")
    content = b""
    while len(content) < size:
        content += asking.recv(size - len(content))
    return marshal.loads(content), streams


def tell(process: int, number: int) -> None:
    """Send a signal to a program and all in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, number)


def become(request: tuple[Any, ...], base: list[str]) -> None:
    """Be the program that is asked for; `base` are the folders of modules that every program has."""
    words, environment, folder, umask, ignored, limits, python = request
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(folder)
    os.umask(umask)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    for number, limit in limits:
        resource.setrlimit(number, limit)
    sys.executable, sys.orig_argv = python, [python, *words]
    safe = bool(os.environ.get("PYTHONSAFEPATH"))
    while words[0] in ("-u", "-P"):
        safe = safe or words[0] == "-P"
        words = words[1:]
    more = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    main = ModuleType("__main__")
    KEPT.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    kind, *rest = words
    if kind == "-m":
        first, sys.argv = folder, ["-m", *rest[1:]]
    elif kind == "-c":
        first, sys.argv = "", ["-c", *rest[1:]]
    else:
        first, sys.argv = os.path.dirname(os.path.realpath(kind)), [kind, *rest]
    sys.path[:] = [*([] if safe else [first]), *map(os.path.abspath, more), *base]
    if (kind == "-m" and rest[0].startswith("fairseq_cli")) or Path(kind).name.startswith("fairseq-"):
        # What `--user-dir` would do when it imports the package.
        from deepnmt import console

        while console._waiting:
            console._waiting.pop(0)()
    if kind == "-m":
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif kind == "-c":
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        main.__file__ = kind
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main.__dict__)


def end(program: Callable[[], None]) -> NoReturn:
    """Run a program and end as Python would, but leave the memory to the system: tidying it would copy all of it."""
    status = 0
    try:
        program()
    except SystemExit as exit_:
        if isinstance(exit_.code, str):
            print(exit_.code, file=sys.stderr)
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException as error:
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except SystemExit as exit_:  # Python takes its status
            status = int(exit_.code or 0)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    own = [sys.path[0], *map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep))]
    rest = [place for place in sys.path if place not in own]
    import_all()
    sys.meta_path.insert(0, Imported())
    gc.collect()
    gc.freeze()
    asked = serve(sys.argv[1])
    if asked is not None:
        end(functools.partial(become, asked, rest))
