"""Commands end in one line for each fault, and leave whole files or none."""

from __future__ import annotations

import errno
import importlib.machinery
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepnmt.console import (
    Parser,
    check_output,
    decimal,
    hear_interruptions,
    is_command,
    place,
    run,
    whole_file,
    wholes,
    write_whole,
)
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import declared

ROOT = Path(__file__).parents[2]
OPTIONS = f'source "{ROOT}/scripts/common.sh"; source "{ROOT}/examples/options.sh";'


@pytest.fixture(autouse=True)
def keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.mark.parametrize(
    ("file", "module", "expected"),
    [
        ("/usr/bin/fairseq-train", None, True),
        ("/usr/bin/deepnmt", None, True),
        ("/usr/bin/deepnmt-translate", None, True),
        ("/x/fairseq_cli/train.py", None, True),
        ("/x/fairseq_cli/train.py", "fairseq_cli.train", True),
        ("/x/deepnmt/__main__.py", "deepnmt.__main__", True),
        ("/home/me/deepnmt_server.py", None, False),
        ("/home/me/deepnmt-server.py", None, False),
        ("/home/me/fairseq-experiments.py", None, False),
        ("/usr/bin/deepnmtd", None, False),
        ("/x/pytest/__main__.py", "pytest.__main__", False),
        (None, None, False),  # an interpreter at a terminal
    ],
)
def test_whose_process_is_a_command(
    file: str | None, module: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = types.ModuleType("__main__")
    main.__spec__ = module and importlib.machinery.ModuleSpec(module, None)  # type: ignore[assignment]
    if file:
        main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert is_command() == expected


def raising(error: BaseException) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UserError("a must be b", "c must be d"), 2, "tool: error: a must be b\ntool: error: c must be d\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.txt"), 2, "tool: error: a.txt: No such file\n"),
        (OSError("no more room"), 2, "tool: error: no more room\n"),
        (KeyboardInterrupt(), 130, "\ntool: interrupted; run the same command again to start over\n"),
    ],
)
def test_faults_in_lines(error: BaseException, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=str(status)):
        run(raising(error), "tool")
    assert capsys.readouterr().err == text


def test_defect_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError, match="a defect"):
        run(raising(ZeroDivisionError("a defect")), "tool")


def test_errors_begin_with_the_file_that_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DEEPNMT_SCRIPT", raising=False)
    monkeypatch.setattr(sys, "argv", ["/somewhere/score.py"])
    with pytest.raises(SystemExit, match="2"):
        run(raising(UserError("a must be b")))
    assert capsys.readouterr().err == "score.py: error: a must be b\n"


def test_errors_behind_a_script_begin_with_its_name(tmp_path: Path) -> None:
    result = subprocess.run(
        [ROOT / "scripts" / "generate.sh", "a.pt", tmp_path / "none", tmp_path / "out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr == (
        f"generate.sh: error: {tmp_path}/none/preprocess.json: no such file; "
        f"is {tmp_path}/none a folder made by deepnmt preprocess?\n"
    )


@pytest.mark.parametrize("error", [ValueError("no value"), KeyboardInterrupt()])
def test_file_is_not_left_half_written(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(error)), whole_file(path) as temporary:  # noqa: PT012
        temporary.write_text("ne")
        raise error
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_fault_of_another_file_is_not_that_of_the_written_one(wrapped: bool, tmp_path: Path) -> None:
    missing = FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path / "in.txt"))
    error = UserError("in.txt: must be there") if wrapped else missing
    error.__cause__ = missing if wrapped else None
    with pytest.raises(type(error), match=r"in\.txt") as found, whole_file(tmp_path / "out"):
        raise error
    assert "cannot write" not in str(found.value)
    with pytest.raises(UserError, match=rf"^cannot write {tmp_path}/none/out: No such file or directory$"):
        whole_file(tmp_path / "none" / "out").__enter__()


@pytest.mark.parametrize("words", [["--out", ""], ["--out="], ["text", "--out", "a", "--out", ""]])
def test_an_options_empty_value_is_refused(words: list[str]) -> None:
    parser = Parser("tool")
    parser.add_argument("text", nargs="*")
    parser.add_argument("--out", type=Path)
    assert parser.parse_args(["a", "--out", "b"]).out == Path("b")
    assert parser.parse_intermixed_args(["--out", "b", "a"]).out == Path("b")
    for parse in (parser.parse_args, parser.parse_intermixed_args):
        with pytest.raises(UserError, match=r"^option --out needs a value \(see --help\)$"):
            parse(words)
        for places in (["", "a"], ["a", ""]):
            with pytest.raises(UserError, match=r"^the name of a file or folder must not be empty \(see --help\)$"):
                parse(places)


def test_options_without_an_option_that_they_need_are_refused() -> None:
    parser = Parser("tool")
    parser.add_argument("places", nargs="*", metavar="PLACE")
    for name in ("--all", "--some"):
        parser.add_argument(name, action="store_true")
    for name in ("--share", "--seed"):
        parser.add_argument(name, default=1, type=int)
    parser.needs("--share", "--some")
    parser.needs("--seed", "--some", "--all")
    for parse in (parser.parse_args, parser.parse_intermixed_args):
        assert parse(["a", "--seed=2", "--all"]).seed == 2
        assert parse(["--some", "--seed", "3", "--share", "4"]).share == 4
        assert parse(["a"]).seed == 1
        # The default, too, would have no effect.
        with pytest.raises(UserError, match=r"^--share needs --some\n--seed needs --some or --all$"):
            parse(["--seed", "1", "--share=1", "a"])
        with pytest.raises(UserError, match=r"^--share needs --some$"):
            parse(["--share", "1", "--all", "--seed=1"])
    with pytest.raises(UserError, match=r"^--seed needs --some or --all$"):
        parser.parse_before_options(["a", "--seed", "1", "--other"], "another")


@pytest.mark.parametrize("link", [False, True])
def test_what_is_no_file_is_not_replaced_by_one(link: bool, tmp_path: Path) -> None:
    """To a superuser, /dev/null is as good a name as any other."""
    path = tmp_path / "out"
    os.mkfifo(tmp_path / "pipe" if link else path)
    if link:
        path.symlink_to("pipe")
    message = rf"^cannot write {path}: must be a file or a new one, but is a device or a pipe$"
    with pytest.raises(UserError, match=message), whole_file(path) as temporary:
        temporary.write_text("new")
    assert path.is_fifo()


@pytest.mark.parametrize("there", [False, True])
def test_a_link_stays(there: bool, tmp_path: Path) -> None:
    (tmp_path / "larger").mkdir()
    real, link = tmp_path / "larger" / "real.txt", tmp_path / "link.txt"
    if there:
        real.write_text("old")
    link.symlink_to("larger/real.txt")
    with whole_file(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [path.name for path in (tmp_path / "larger").iterdir()] == ["real.txt"]


def test_full_disk_is_named_though_a_library_wraps_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*a\.txt: No room"), whole_file(tmp_path / "a.txt"):
        raise RuntimeError("write failed") from OSError(errno.ENOSPC, "No room")


def test_a_reader_who_has_enough_ends_a_command_quietly(tmp_path: Path) -> None:
    code = "import sys; from deepnmt.console import run; run(lambda: [print(n, flush=True) for n in range(10**6)])"
    command = f"{sys.executable} -c '{code}' | head -n 2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGPIPE, "0\n1\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_exit_prints_no_traceback(number: signal.Signals) -> None:
    # torch removes its libraries in a finalizer, which is called at the exit.
    code = (
        "import signal, weakref; from deepnmt.console import run\n"
        f"run(lambda: weakref.finalize(run, signal.raise_signal, signal.{number.name}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-number, "")


def test_scripts_find_the_package_where_it_is_not_installed(tmp_path: Path) -> None:
    """DEEPNMT_PYTHON_BIN may name a Python that does not know the package: here one without its site packages."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    find = "import importlib.util as u; print(u.find_spec('deepnmt').origin)"
    done = subprocess.run(
        ["bash", "-c", f'source "{ROOT}/scripts/common.sh"; python3 -c "{find}"'],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"DEEPNMT_PYTHON_BIN": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == f"{ROOT}/deepnmt/__init__.py\n"


def test_a_long_value_is_cut_in_an_error_of_a_script() -> None:
    with_value = f'{OPTIONS} number_from --seed 1 9 "$(printf x%.0s $(seq 100000))"'
    done = subprocess.run(["bash", "-c", with_value, "made.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    start = "made.sh: error: --seed must be a whole number, but is 'xxx"
    assert done.stderr.startswith(start)
    assert len(done.stderr) == len("made.sh: error: ") + 5000 + len("\n")


@pytest.mark.parametrize(("number", "taken"), [("8", True), ("0", True), ("08", False), ("00", False)])
def test_a_number_of_a_script_has_no_leading_zero(number: str, taken: bool) -> None:
    checked = f"{OPTIONS} number_from --seed 0 9 {number}"
    done = subprocess.run(["bash", "-c", checked, "made.sh"], capture_output=True, text=True, check=False)
    wrong = f"made.sh: error: --seed must not begin with a zero, but is {number}\n"
    assert (done.returncode, done.stderr) == ((0, "") if taken else (2, wrong))


def test_scripts_count_the_processors_that_they_may_use() -> None:
    mine = sorted(os.sched_getaffinity(0))
    for some in {len(mine), 1}:
        done = subprocess.run(
            ["bash", "-c", f"{OPTIONS} cores"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"},
            preexec_fn=lambda: os.sched_setaffinity(0, mine[:some]),  # noqa: B023
        )
        assert done.stdout == f"{some}\n"


@pytest.fixture
def ignored(keep_signals: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a shell starts a command in the background of a script."""
    monkeypatch.undo()
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("ignored")
def test_interruption_is_heard_where_it_was_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    ends = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match="130"):
            run(lambda: signal.raise_signal(signal.SIGINT), "tool")
    finally:
        signal.signal(signal.SIGTERM, ends)
    assert capsys.readouterr().err == "\ntool: interrupted; run the same command again to start over\n"


@pytest.mark.usefixtures("ignored")
def test_interruption_is_left_alone_in_threads_and_where_a_program_handles_it() -> None:
    # Python lets the main thread alone set handlers.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hear_interruptions).result()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    hear_interruptions()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL


@pytest.mark.usefixtures("ignored")
def test_interruption_is_heard_by_fairseqs_commands() -> None:
    (heard,) = (patch for patch in declared() if patch.target == "signal.SIGINT")
    heard.function()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        signal.raise_signal(signal.SIGINT)


def test_a_value_may_begin_with_a_hyphen() -> None:
    parser = Parser("test")
    parser.add_argument("--train")
    parser.add_argument("--some", action="store_true")
    parser.add_argument("place", nargs="?")
    assert parser.parse_args(["--train", "-news"]).train == "-news"
    for words in (["--train", "--some"], ["--some", "-news"]):
        with pytest.raises(UserError, match=r"(expected one argument|unrecognized arguments: -news) \(see --help\)$"):
            parser.parse_args(words)


def test_numbers_have_one_form() -> None:
    read = decimal("--ratio")
    assert [(read(text), type(read(text))) for text in ("12", "0.5", "1.0")] == [(12, int), (0.5, float), (1.0, float)]
    for text in ("", ".5", "01", "1e3", "-1", "1.", "nan", "1_0", "\u0661"):
        with pytest.raises(UserError, match=r"^--ratio must be a number in the form of 12 or 0\.5, but is"):
            read(text)


def test_lists_of_whole_numbers() -> None:
    read = wholes("--beams", 1, 64)
    assert read("4") == [4]
    assert read("8,4,8,064") == [8, 4, 8, 64]
    for text in ("", "4,", ",4", "4,,5", "0", "65", "-1", "4.5", "x", "4 ,5", "\u0664", "9" * 5000):
        with pytest.raises(UserError, match=r"^--beams must be whole numbers from 1 to 64 with commas between them, b"):
            read(text)


def test_an_output_is_checked_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    for name in ("old.txt", "new.txt"):
        check_output(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"
    with pytest.raises(UserError, match=f"^{tmp_path}: must be a file, but is a folder$"):
        check_output(tmp_path)
    with pytest.raises(UserError, match=f"^cannot write {tmp_path}/no/new.txt: No such file or directory$"):
        check_output(tmp_path / "no" / "new.txt")
    with pytest.raises(UserError, match=f"^cannot write {tmp_path}/old.txt/new.txt: Not a directory$"):
        check_output(tmp_path / "old.txt" / "new.txt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=f"^cannot write {tmp_path}/pipe: must be a file or a new one, but is a dev"):
        check_output(tmp_path / "pipe")


def test_an_empty_name_is_no_folder() -> None:
    assert place("a/") == Path("a")
    with pytest.raises(UserError, match=r"^the name of a file or folder must not be empty$"):
        place("")


def test_a_missing_package_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise ModuleNotFoundError("No module named 'regex'", name="regex")

    with pytest.raises(SystemExit, match=r"^2$"):
        run(main, "test")
    assert capsys.readouterr().err.startswith("test: error: the package regex is not installed for ")


@pytest.mark.parametrize(("content", "written"), [("wörter\n", b"w\xc3\xb6rter\n"), (b"\xff\n", b"\xff\n")])
def test_text_and_bytes_are_written_whole(content: str | bytes, written: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    write_whole(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == written
    with pytest.raises(UserError, match=r"cannot write .*none/a: No such file or directory"):
        write_whole(tmp_path / "none" / "a", content)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
