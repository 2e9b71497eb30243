"""Score with COMET, in an environment that has unbabel-comet and need not have this package.

    python -c SOURCE MODEL TEXTS RESULT

TEXTS is JSON, a list of {"src": ..., "mt": ..., "ref": ...}; RESULT becomes {"score": ..., "version": ...}.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Score the texts of the command line."""
    import comet  # type: ignore[import-not-found]
    import torch

    model, texts, result = sys.argv[1:]
    samples = json.loads(Path(texts).read_bytes())
    gpus = int(torch.cuda.is_available())
    found = comet.load_from_checkpoint(model).predict(samples, batch_size=16, gpus=gpus, progress_bar=False)
    score = {"score": float(found.system_score), "version": version("unbabel-comet")}
    Path(result).write_text(json.dumps(score), encoding="utf-8")


if __name__ == "__main__":
    main()
