"""What is run on the made-up device, and what must hold: see `Train` and `Search`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Union

from fairseq.models import MODEL_DATACLASS_REGISTRY

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.dual import DualConfig
from support.fake_cuda.runs import largest_difference, options_of, score_error, search, train, update_error

LS = "label_smoothed_cross_entropy"
SHALLOW = {"encoder_layers": 2, "decoder_layers": 2}
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
PRE, POST, NONE, B2T = ({"encoder_norm": norm, "decoder_norm": norm} for norm in ("pre", "post", "none", "b2t"))
RELATIVE = {"encoder_max_relative_length": 2, "decoder_max_relative_length": 3}
ADMIN = {"residual_scale": "admin", "initializer": "admin"}
SKIP = {"encoder_skip": 0.5, "decoder_skip": 0.5}
LAYERDROP = {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}
CHECKPOINTING = {**PRE, "checkpoint_activations": True}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain pre": {**PRE, **PLAIN},
    "plain post": {**POST, **PLAIN},
    "no norms": {**NONE, **PLAIN},
    "b2t": {**B2T, **PLAIN},
    "b2t dlcl": B2T,
    "dlcl pre": PRE,
    "dlcl post": POST,
    "dlcl no norms": NONE,
    "groups": {**PRE, "encoder_layers": 3, "encoder_groups": "2", "decoder_groups": "0,1,2"},
    "dlcl slices": {**PRE, "dlcl_granularity": "4"},
    "dlcl vector": {**PRE, "dlcl_granularity": "vector"},
    "dlcl vector post": {**POST, "dlcl_granularity": "vector"},
    "dlcl one": {**POST, "dlcl_init": "one"},
    "dlcl window": {**PRE, "dlcl_window": 2},
    "dlcl freeze": {**PRE, "dlcl_freeze": True},
    "dlcl softmax": {**PRE, "dlcl_softmax": True},
    "dlcl embedding norm": {**PRE, "dlcl_embedding_norm": True},
    "layerdrop": {**PRE, **LAYERDROP},
    "layerdrop window": {**PRE, **LAYERDROP, "dlcl_window": 1},
    "relative": {**PRE, **RELATIVE},
    "relative keys": {**POST, **RELATIVE, "relative_positions": "keys"},
    "merged": {**PRE, "merged_attention": True},
    "merged post": {**POST, **PLAIN, "merged_attention": True},
    "deepnorm": {**POST, **PLAIN, "residual_scale": "deepnorm", "initializer": "deepnorm"},
    "admin": {**POST, **PLAIN, **ADMIN},
    "admin dlcl": {**POST, **ADMIN},
    "skipping": {**PRE, **SKIP},
    "skipping merged": {**POST, **PLAIN, **SKIP, "merged_attention": True, "skip_scale": "inference"},
    "skipping constant": {**PRE, **SKIP, "skip_schedule": "constant"},
    "learned positions": {**PRE, "encoder_learned_pos": True, "decoder_learned_pos": True},
    "shared embeddings": {**PRE, "share_all_embeddings": True},
    "other widths": {**PRE, "decoder_input_dim": 12, "decoder_output_dim": 20},
    "cross+self": {**PRE, **PLAIN, "cross_self_attention": True},
    "checkpointing": CHECKPOINTING,
    "checkpointing offloading": {**CHECKPOINTING, "offload_activations": True},
    "checkpointing skipping": {**CHECKPOINTING, **SKIP},
}
STATE = ("plain post", "dlcl pre", "dlcl vector", "admin", "shared embeddings", "checkpointing")
STOCK = (
    "plain pre",
    "plain post",
    "no norms",
    "groups",
    "dlcl vector",
    "dlcl window",
    "relative",
    "merged",
    "other widths",
)
# Beside the stock ones, of each kind the one with the most kernels of its own.
ALWAYS = (*STATE, "layerdrop window", "skipping merged", "checkpointing offloading")
SLOW = [["fp32", "fused"], ["fp16 memory-efficient", LS], ["fp16 not flat", f"{LS}_fused"], ["amp", LS], ["bf16", LS]]
# Of what others show together: a model's steps of the search, a loss, a precision.
REPEATS = {f"{name}, search, fp32" for name in ("dlcl pre", "layerdrop window", "admin", "skipping merged")}
REPEATS |= {"shared embeddings, search, fp32", "merged, search, fp16", "other widths, fp16, simcut"}
REPEATS |= {f"dlcl vector, amp, {LS}_fused"}
# Random draws differ from the CPU's: these are run, not compared.
DRAWING: dict[str, dict[str, Any]] = {
    "dropout": {**PRE, "dropout": 0.3, "attention_dropout": 0.1, "activation_dropout": 0.1, "dlcl_dropout": 0.1},
    "fast dropout": {**PRE, "dropout": 0.3, "attention_dropout": 0.1, "fast_dropout": True},
    "relative dropout": {**PRE, **RELATIVE, "dropout": 0.3, "attention_dropout": 0.1},
    "merged dropout": {**PRE, "merged_attention": True, "dropout": 0.3, "attention_dropout": 0.1},
    "checkpointing dropout": {**CHECKPOINTING, "dropout": 0.3},
    "quantisation noise": {**PRE, "quant_noise_pq": 0.1},
}
TRAINERS: dict[str, dict[str, Any]] = {
    "clip norm": {"optimization": {"clip_norm": 0.1}},
    "old adam": {"optimizer": {"use_old_adam": True}},
    "weight decay": {"optimizer": {"weight_decay": 0.01}},
}
TOLERANCE = {"fp32": 3e-5, "bf16": 0.2}
HALF = 0.05
MOST_WAITS = 20  # of an update of two batches, as many as fairseq's own model and loss need in half precision


@dataclass(frozen=True)
class Train:
    """A training must equal that on the CPU, give all parameters gradients, and wait no oftener than it may.

    Attributes:
        options: of the model
        precision: of `runs.PRECISIONS`
        criterion: its name
        compare: False where draws of random numbers differ
        most_waits: of an update of two batches, or None
        updates: to make
        groups: fairseq's options by group
    """

    options: dict[str, Any]
    precision: str
    criterion: str = LS
    compare: bool = True
    most_waits: Union[int, None] = None
    updates: int = 2
    groups: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """A search must find what the CPU's finds; in half precision, its scores must be right.

    Attributes:
        options: of the model
        half: precision
        stock: it must find what fairseq's finds, too, and wait no oftener; of all models, tests of the search hold the
            former on the CPU
        lm_weight: of a language model, which is on the CPU until the search begins
    """

    options: dict[str, Any]
    half: bool
    stock: bool = False
    lm_weight: float = 0.0


def cases() -> list[tuple[str, Union[Train, Search]]]:
    """All cases, in a fixed order."""
    found: list[tuple[str, Union[Train, Search]]] = []
    kinds = {name: kind for name, kind in MODEL_DATACLASS_REGISTRY.items() if kind is not DualConfig}
    for name in sorted(name for name, kind in kinds.items() if issubclass(kind, DLCLTransformerConfig)):
        whole = options_of(name)
        cut = {f"{stack}_layers": _shallow(whole, stack) for stack in ("encoder", "decoder")}
        # What differs between architectures shows in one update; each option by itself, in float32 too, is below.
        found.append((f"{name}, fp16, fused", Train({**whole, **cut}, "fp16", f"{LS}_fused", updates=1)))
    for name, options in OPTIONS.items():
        model = {**SHALLOW, **options}
        found.append((f"{name}, fp32, fused", Train(model, "fp32", f"{LS}_fused")))
        # What a second update shows, the master copy and Adam's state, does not depend on the model's options.
        found.append((f"{name}, fp16", Train(model, "fp16", updates=2 if name in STATE else 1)))
        if not options.get("checkpoint_activations"):
            found.append((f"{name}, search, fp32", Search(model, half=False, stock=name in STOCK)))
    for name in ("plain pre", "dlcl pre", "dlcl vector", "merged", "relative"):
        found.append((f"{name}, search, fp16", Search({**SHALLOW, **OPTIONS[name]}, half=True)))
    found.append(("a language model, search, fp32", Search({**SHALLOW, **PRE}, half=False, lm_weight=0.5)))
    for name, options in DRAWING.items():
        found.append((f"{name}, fp16, drawing", Train({**SHALLOW, **options}, "fp16", compare=False)))
    for loss in ("r_drop", "simcut", "distillation"):
        for name, precision in (("dlcl pre", "fp32"), ("dlcl pre", "amp"), ("other widths", "fp16")):
            model = {**SHALLOW, **OPTIONS[name]}
            compare = loss != "simcut" and precision != "amp"
            found.append((f"{name}, {precision}, {loss}", Train(model, precision, f"{LS}_{loss}", compare)))
    for name, groups in TRAINERS.items():
        found.append((f"{name}, fp16", Train({**SHALLOW, **PRE}, "fp16", groups=groups)))
    # The scaler's ordinary overflow: updates that are skipped, and training goes on.
    overflow = {"common": {"fp16_init_scale": 2**14}}
    found.append(("overflow, fp16", Train({**SHALLOW, **PRE}, "fp16", updates=6, groups=overflow)))
    # Each pair of a precision, a model and a loss is in one of them.
    for first, precision in enumerate(("fp16 not flat", "fp16 memory-efficient", "bf16", "amp")):
        for second, name in enumerate(("dlcl pre", "dlcl vector", "admin", "other widths")):
            loss = LS if (first + second) % 2 else f"{LS}_fused"
            # autocast is CUDA's: on the CPU, fairseq's AMP is float32.
            model = {**SHALLOW, **OPTIONS[name]}
            found.append((f"{name}, {precision}, {loss}", Train(model, precision, loss, precision != "amp")))
    return [*found, *_waits()]


def is_slow(name: str) -> bool:
    """Whether a case repeats most of another one, and runs only where slow tests do."""
    model, *rest = name.split(", ")
    if model == "waits":
        return rest[:2] not in (["dlcl", "fp16"], ["vector", "fp32"])
    repeated = model in OPTIONS and model not in ALWAYS + STOCK
    return repeated or model.startswith("dlcl_transformer_") or rest in SLOW


def _shallow(options: dict[str, Any], stack: str) -> int:
    """Two layers, or a group and the first layer of the next one."""
    groups = str(options[f"{stack}_groups"])
    depth = int(groups) + 1 if groups.isdecimal() else 2
    return min(int(options[f"{stack}_layers"]), depth)


def _waits() -> list[tuple[str, Union[Train, Search]]]:
    """Deep models, since a wait for each layer is what must not come back."""
    deep = {"encoder_layers": 12, "decoder_layers": 6, **PRE}
    models = {"plain": PLAIN, "dlcl": {}, "vector": {"dlcl_granularity": "vector"}}
    found: list[tuple[str, Union[Train, Search]]] = []
    # Each pair of a precision, a loss and a model is in one of them, as are the equal updates of shallow models above.
    for first, precision in enumerate(("fp16", "fp32")):
        for second, (name, options) in enumerate(models.items()):
            loss = LS if (first + second) % 2 else f"{LS}_fused"
            case = Train({**deep, **options}, precision, loss, compare=False, most_waits=MOST_WAITS)
            found.append((f"waits, {name}, {precision}, {loss}", case))
    return found


def run(case: Union[Train, Search]) -> tuple[list[str], dict[str, Any]]:
    """What is wrong, and figures."""
    return _search(case) if isinstance(case, Search) else _train(case)


def _train(case: Train) -> tuple[list[str], dict[str, Any]]:
    arguments: Any = {"criterion": case.criterion, "updates": case.updates, **case.groups}
    got = train(case.options, case.precision, False, **arguments)
    faults = []
    if got.devices != {"cuda"}:
        faults.append(f"parameters are on {sorted(got.devices)}")
    if not all(map(math.isfinite, got.losses)):
        faults.append(f"losses are {got.losses}")
    if got.without_gradient and not case.options.get("encoder_layerdrop"):
        faults.append(f"no gradient for {got.without_gradient}")
    waits = sum(got.waits.values())
    figures: dict[str, Any] = {"kernels": got.kernels, "waits": waits}
    if case.most_waits is not None and waits > case.most_waits:
        faults.append(f"{waits} waits, but {case.most_waits} are allowed: {got.waits}")
    if case.compare:
        expected = train(case.options, case.precision, True, **arguments)
        measure = largest_difference if case.precision == "fp32" else update_error
        figures["difference"] = measure(expected, got)
        if not figures["difference"] < TOLERANCE.get(case.precision, HALF):
            faults.append(f"parameters differ by {figures['difference']:.2g}")
        if got.updates != expected.updates:
            faults.append(f"{got.updates} updates, but the CPU makes {expected.updates}")
    elif not got.updates:
        faults.append("no update")
    return faults, figures


def _search(case: Search) -> tuple[list[str], dict[str, Any]]:
    got = search(case.options, case.half, on_cpu=False, lm_weight=case.lm_weight)
    figures: dict[str, Any] = {"kernels": got.kernels, "waits": got.waits}
    if case.half:
        # Hypotheses that are nearly as good may change places.
        figures["difference"] = score_error(case.options, got)
        return (["scores are wrong"] if not figures["difference"] < 1e-2 else []), figures
    faults = []
    if case.stock:
        stock = search(case.options, False, on_cpu=False, own=False)
        figures["fairseq"] = {"kernels": stock.kernels, "waits": stock.waits}
        if got.tokens != stock.tokens:
            faults.append("other translations than by fairseq's search")
    if got.tokens != search(case.options, False, on_cpu=True, lm_weight=case.lm_weight).tokens:
        faults.append("other translations than on the CPU")
    return faults, figures
