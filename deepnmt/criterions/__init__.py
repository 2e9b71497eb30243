"""Training criterions."""


def register() -> None:
    """Register the criterions with fairseq, for `--criterion`."""
    from fairseq.criterions import register_criterion

    from deepnmt.criterions.distillation import Distillation, DistillationConfig
    from deepnmt.criterions.dual_supervised import DualSupervised, DualSupervisedConfig
    from deepnmt.criterions.fused import FusedConfig, FusedLabelSmoothedCrossEntropy
    from deepnmt.criterions.language_model_loss import LanguageModelLoss, LanguageModelLossConfig
    from deepnmt.criterions.masked_language_model import MaskedLanguageModel, MaskedLanguageModelConfig
    from deepnmt.criterions.minimum_risk import MinimumRisk, MinimumRiskConfig
    from deepnmt.criterions.r_drop import RDrop, RDropConfig
    from deepnmt.criterions.simcut import SimCut, SimCutConfig
    from deepnmt.criterions.two_sided_loss import TwoSided, TwoSidedConfig
    from deepnmt.options.dual_rules import CRITERION

    for name, criterion, options in (
        ("distillation", Distillation, DistillationConfig),
        ("fused", FusedLabelSmoothedCrossEntropy, FusedConfig),
        ("lm", LanguageModelLoss, LanguageModelLossConfig),
        ("mrt", MinimumRisk, MinimumRiskConfig),
        ("r_drop", RDrop, RDropConfig),
        ("simcut", SimCut, SimCutConfig),
        ("two_sided", TwoSided, TwoSidedConfig),
    ):
        register_criterion(f"label_smoothed_cross_entropy_{name}", dataclass=options)(criterion)
    register_criterion(CRITERION, dataclass=DualSupervisedConfig)(DualSupervised)
    register_criterion("masked_language_model", dataclass=MaskedLanguageModelConfig)(MaskedLanguageModel)
