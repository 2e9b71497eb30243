"""examples/libreoffice/run.sh, from packages to a translated sentence; the packages have sentences of the grammar."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from grammar.generate import write_splits
from support import warm
from support.models import ROOT
from support.processes import finish

from deepnmt.text.lines import read_text

RUN = ROOT / "examples" / "libreoffice" / "run.sh"
PAGES, PARAGRAPHS = 200, 4


def packages(folder: Path) -> None:
    """The packages of German, with pages of a few paragraphs each, and an interface without texts."""
    write_splits(folder / "grammar", {"train": PAGES * PARAGRAPHS}, seed=1)
    for name, side in (("help-en-us", "en"), ("help-de", "de"), ("l10n-de", "")):
        package = folder / f"libreoffice-{name}"
        (package / "DEBIAN").mkdir(parents=True)
        control = f"Package: {package.name}\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: none\n"
        (package / "DEBIAN" / "control").write_text(control, encoding="utf-8")
        if side:
            lines = read_text(folder / "grammar" / f"train.{side}")
            text = package / "usr/share/libreoffice/help" / name.removeprefix("help-") / "text"
            text.mkdir(parents=True)
            for page in range(PAGES):
                part = lines[page * PARAGRAPHS : (page + 1) * PARAGRAPHS]
                body = "".join(f'<p id="par_{number}">{line}</p>' for number, line in enumerate(part))
                (text / f"page{page}.html").write_text(body, encoding="utf-8")
        subprocess.run(["dpkg-deb", "--build", package, f"{package}_1_all.deb"], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_from_packages_to_a_translated_sentence(tmp_path: Path) -> None:
    (tmp_path / "debs").mkdir()
    packages(tmp_path / "debs")
    environment = {**os.environ, **warm.environment(), "OUT": str(tmp_path / "out"), "CUDA_VISIBLE_DEVICES": ""}
    # One checkpoint, fewer than are averaged otherwise.
    options = ["--max-update", "2", "--encoder-layers", "1", "--decoder-layers", "1"]
    command = [str(RUN), "de", "--debs", str(tmp_path / "debs"), *options]
    done = finish(command, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    place = tmp_path / "out" / "de"
    assert done.stdout.splitlines()[-1] == f"translate with: deepnmt translate {place}/models/tiny"
    assert len(read_text(place / "results" / "tiny" / "ref.en")) == len(read_text(place / "text" / "test.de"))
    assert (place / "models" / "tiny" / "model.json").is_file()
    # Finished steps are found.
    again = finish(command, env=environment)
    assert again.returncode == 0, again.stderr[-4000:]
    assert "up to date" in again.stdout
