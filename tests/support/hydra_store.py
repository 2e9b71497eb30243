"""What fairseq does anew each time it turns options into its configuration, done once in a process.

That takes half a second, and hundreds of trainings and translations begin with it: Hydra reads each option by its
grammar, looks for all classes of fairseq's, and composes settings of its own that fairseq throws away.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from types import SimpleNamespace
from typing import Any

from hydra._internal import utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf


def share_configurations() -> None:
    """Have Hydra remember what it has read and composed; what it hands out is a copy, as before."""
    # The store copies whatever it hands out by itself.
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    utils.inspect = SimpleNamespace(**{**vars(inspect), "stack": callers})  # type: ignore[attr-defined]
    OverridesParser.parse_rule = remembered(OverridesParser.parse_rule)  # type: ignore[method-assign]
    stock, known = ConfigLoaderImpl._load_configuration_impl, {}

    @functools.wraps(stock)
    def load_configuration(
        self: ConfigLoaderImpl, config_name: str, overrides: list[str], *others: Any, **more: Any
    ) -> DictConfig:
        if config_name != "config" or more.get("from_shell", True):  # a file for fairseq-hydra-train
            return stock(self, config_name, overrides, *others, **more)
        parsed, repository = self._parse_overrides_and_create_caching_repo(config_name, overrides)
        groups = ConfigStore.instance().repo
        chosen = [each for each in parsed if each.key_or_group in groups and isinstance(each.value(), str)]
        # A name may be registered anew.
        classes = tuple(groups[each.key_or_group].get(f"{each.value()}.yaml") for each in chosen)
        key = tuple((each.input_line, id(node)) for each, node in zip(chosen, classes))
        if key not in known:
            found = create_defaults_list(repository, config_name, chosen, prepend_hydra=False, skip_missing=False)
            known[key] = classes, self._compose_config_from_defaults_list(found.defaults, repository)
        cfg = copy.deepcopy(known[key][1])
        OmegaConf.set_struct(cfg, True)
        self._apply_overrides_to_config([each for each in parsed if each not in chosen], cfg)
        return cfg

    ConfigLoaderImpl._load_configuration_impl = load_configuration  # type: ignore[method-assign]


def callers() -> list[inspect.FrameInfo]:
    """`inspect.stack`, for Hydra's look at who asks for a configuration: without the lines and modules of all files."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
        frame = frame.f_back  # type: ignore[assignment]
    return found


def remembered(stock: Any) -> Any:
    """`OverridesParser.parse_rule`, which reads a text once."""
    known: dict[tuple[str, str], Any] = {}

    @functools.wraps(stock)
    def parse_rule(self: OverridesParser, s: str, rule_name: str) -> Any:
        if (s, rule_name) not in known:
            known[s, rule_name] = stock(self, s, rule_name)
        return copy.copy(known[s, rule_name])

    return parse_rule
