"""Model folders for Hugging Face's transformers.

Importing this package registers two classes beside transformers' own. They are the tokeniser of the text steps, and
the model for DLCL, groups, norms and relative positions. No code in a folder is run.

    import deepnmt.engines.transformers
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained("model"), AutoModelForSeq2SeqLM.from_pretrained("model")
    batch = tokenizer(["Ein Satz zum Übersetzen."], return_tensors="pt", padding=True)
    print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""

from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from deepnmt.engines.transformers.modelling import DeepTranslationConfig, DeepTranslationModel
from deepnmt.engines.transformers.tokenizer import DeepTranslationTokenizer

__all__ = ["DeepTranslationConfig", "DeepTranslationModel", "DeepTranslationTokenizer"]

AutoConfig.register(DeepTranslationConfig.model_type, DeepTranslationConfig)
AutoModelForSeq2SeqLM.register(DeepTranslationConfig, DeepTranslationModel)
AutoTokenizer.register(DeepTranslationConfig, slow_tokenizer_class=DeepTranslationTokenizer)
