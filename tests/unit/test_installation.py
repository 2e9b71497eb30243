"""What setup.py and requirements.txt say: one fairseq everywhere, versions that fit, links that lead somewhere."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.checkpoints import run_main

from deepnmt import cli, console

ROOT = Path(__file__).resolve().parents[2]
PINS = [
    Requirement(line)
    for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def metadata(monkeypatch: pytest.MonkeyPatch, repository: str = "") -> dict[str, Any]:
    """Return what setup.py gives setuptools."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: given.update(options))
    monkeypatch.setenv("DEEPNMT_REPOSITORY", repository)
    runpy.run_path(str(ROOT / "setup.py"))
    return given


def fairseqs(requirements: list[Requirement], python: str, system: str, machine: str) -> list[str]:
    place = {"python_version": python, "sys_platform": system, "platform_machine": machine}
    found = [each for each in requirements if each.name.endswith(("fairseq", "fairseq-fixed"))]
    return [each.name for each in found if each.marker is None or each.marker.evaluate(place)]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize(
    ("system", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")]
)
def test_one_fairseq_on_each_platform(python: str, system: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The wheels of ve-fairseq 0.12.3.
    wheel = (system, machine) == ("linux", "x86_64") and python in ("3.11", "3.12")
    wanted = ["ve-fairseq" if wheel else "fairseq-fixed"]
    ranges = [Requirement(each) for each in metadata(monkeypatch)["install_requires"]]
    assert fairseqs(ranges, python, system, machine) == fairseqs(PINS, python, system, machine) == wanted


def test_pins_are_in_the_ranges_of_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    given = metadata(monkeypatch)
    ranges = [Requirement(each) for each in sum(given["extras_require"].values(), given["install_requires"])]
    pins = {re.sub(r"[-_.]+", "-", pin.name).lower(): next(iter(pin.specifier)).version for pin in PINS}
    assert [str(each) for each in ranges if not each.specifier.contains(pins[each.name.lower()])] == []


def test_pythons_and_sentencepieces_that_do_not_work_are_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    given = metadata(monkeypatch)
    pythons = SpecifierSet(given["python_requires"])
    assert [version for version in ("3.9", "3.10.12", "3.11.0", "3.12.1") if version in pythons] == ["3.11.0", "3.12.1"]
    pieces = Requirement(given["extras_require"]["subwords"][0]).specifier
    assert [version for version in ("0.2.1", "0.2.2", "0.2.3") if Version(version) in pieces] == ["0.2.1", "0.2.3"]


def test_classifiers_name_the_pythons_that_need_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    given = metadata(monkeypatch)
    minors = [name.rpartition(":: ")[2] for name in given["classifiers"] if ":: Python :: 3." in name]
    assert minors == ["3.11", "3.12"]
    assert given["license_expression"] == "MIT"
    # An index refuses a classifier of the licence beside the expression.
    assert [name for name in given["classifiers"] if name.startswith("License")] == []
    assert given["long_description_content_type"] == "text/markdown"


def targets(readme: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", readme)


def test_readme_of_an_index_has_no_relative_link(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = targets((ROOT / "README.md").read_text("utf-8"))
    relative = [target for target in inside if "://" not in target]
    given = metadata(monkeypatch, "https://host.invalid/team/deepnmt/")
    hosted = targets(given["long_description"])
    assert len(hosted) == len(inside)
    assert all(target.startswith("https://") for target in hosted)
    assert "https://host.invalid/team/deepnmt/blob/HEAD/docs/methods.md" in hosted
    assert (
        "![Gradient norm by layer, before the first update](https://host.invalid/team/deepnmt/raw/HEAD/"
        in (given["long_description"])
    )
    assert given["project_urls"]["Source"] == "https://host.invalid/team/deepnmt"
    # Without a repository no address is made up, and each file is named.
    given = metadata(monkeypatch)
    assert list(given["project_urls"]) == ["fairseq"]
    assert targets(given["long_description"]) == [target for target in inside if "://" in target]
    assert [target for target in relative if f"(`{target}`)" not in given["long_description"]] == []


def test_setup_and_requirements_agree_on_where_fairseq_is_compiled() -> None:
    text = (ROOT / "scripts" / "setup.sh").read_text("utf-8")
    condition = re.search(r"sys\.exit\((sys\.version_info >= .*)\)'", text)
    assert condition is not None
    for version, python in (((3, 11, 2), "3.11"), ((3, 12, 9), "3.12"), ((3, 13, 0), "3.13")):
        for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
            names = {
                "sys": type("sys", (), {"version_info": version, "platform": system}),
                "platform": type("platform", (), {"machine": staticmethod(lambda machine=machine: machine)}),
            }
            compiled = eval(condition[1], names)
            assert compiled == (fairseqs(PINS, python, system, machine) == ["fairseq-fixed"])


JIT = "`torch.jit.script` is deprecated. Please switch to `torch.compile` or `torch.export`."


def test_what_the_newest_torch_says_at_each_import_is_not_shown() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        run_main(lambda: console.run(lambda: None), "deepnmt")
        warnings.warn(JIT, FutureWarning, stacklevel=1)
        warnings.warn("another", FutureWarning, stacklevel=1)
    assert [str(each.message) for each in shown] == ["another"]


# Libraries of the extra `corpus`, and of pictures.
HIDDEN = {"scipy": "corpus", "sklearn": "corpus", "matplotlib": "pictures"}
# In one process: hide them, import everything else, and call the commands that need them.
WITHOUT = """
import importlib, json, pkgutil, sys
from importlib.machinery import ModuleSpec
hidden, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
def call(words):
    try:
        deepnmt.cli.main(words)
    except SystemExit as end:
        print(end.code, file=sys.stderr)
import deepnmt, deepnmt.cli
for words in commands:
    call(words)
# fairseq imports scikit-learn itself.
hide = sys.meta_path.pop(0)
import fairseq
for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
sys.meta_path.insert(0, hide)
deepnmt.register()
skipped = ("deepnmt.corpus", "deepnmt.__main__", "deepnmt.inspection.page", "deepnmt.fairseq_patches.__main__")
# transformers looks for scikit-learn among the installed packages, and then expects it.
skipped += ("deepnmt.engines.transformers",)
found = [module.name for module in pkgutil.walk_packages(deepnmt.__path__, "deepnmt.")]
found = [name for name in found if not name.startswith(skipped)]
for name in found:
    importlib.import_module(name)
print(len(found), file=sys.stderr)
"""


def test_the_package_alone_has_no_use_for_the_libraries_of_extras(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = metadata(monkeypatch)
    names = {"scipy": "scipy", "sklearn": "scikit-learn", "matplotlib": "matplotlib"}
    assert not set(names.values()) & {Requirement(each).name for each in given["install_requires"]}
    for library, extra in HIDDEN.items():
        assert names[library] in [Requirement(each).name for each in given["extras_require"][extra]]
    for language in ("de", "en"):
        (tmp_path / f"text.{language}").write_text("a b c\n" * 200)
    languages = ["--source-lang", "de", "--target-lang", "en"]
    (tmp_path / "model.arpa").touch()
    commands = [
        ["clean", "--input", "text", "--output", "out", *languages, "--length"],
        ["align", "text", "out", *languages],
        ["select", "data", "out", "--like", "text.de", "--number", "5"],
        ["ngram", "train", "text.de", "out.arpa"],
        ["ngram", "score", "model.arpa", "text.de", "out.tsv"],
    ]
    before = sorted(path.name for path in tmp_path.iterdir())
    command = [sys.executable, "-c", WITHOUT, json.dumps([*HIDDEN]), json.dumps(commands)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, number = done.stderr.splitlines()
    missing = {"select": "sklearn"}
    faults = [
        f"deepnmt {words[0]}: error: {missing.get(words[0], 'scipy')} is not installed: pip install 'deepnmt[corpus]'"
        for words in commands
    ]
    assert lines == [line for fault in faults for line in (fault, "2")]
    assert int(number) > 250
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_classifier_without_scikit_learn_is_refused_before_the_corpus_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    words = ["--input", "none", "--output", "out", "--source-lang", "de", "--target-lang", "en", "--keep-best", "0.5"]
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["clean", *words, "--train-classifier"])
    assert capsys.readouterr().err == (
        "deepnmt clean: error: sklearn is not installed: pip install 'deepnmt[corpus]'\n"
    )
