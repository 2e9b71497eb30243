#!/usr/bin/env bash
# onnxruntime-extensions 0.15.2: StringLower knows Latin-1 and Russian letters, but neither Ё nor Polish, Ukrainian and
# Greek ones; StringUpper knows ASCII alone. Guessed: both know all of Unicode, which tests with ÄÖÜ and ДОМ seem to
# show. Seen: ЁЛКА becomes Ёлка, ŁÓDŹ becomes ŁódŹ, КИЇВ becomes киЇв, and "é ä д" stays. The vocabulary of a model that
# lower-cases its text does not have such words.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" onnx==1.23.2 onnxruntime==1.32.0 onnxruntime-extensions==0.15.2 \
    numpy==2.4.6
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
import numpy as np
from onnx import TensorProto, helper
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime_extensions import get_library_path


def run(operator, words):
    x, y = (helper.make_tensor_value_info(name, TensorProto.STRING, [len(words)]) for name in "xy")
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.contrib")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(helper.make_graph([node], "graph", [x], [y]), opset_imports=opsets, ir_version=9)
    options = SessionOptions()
    options.register_custom_ops_library(get_library_path())
    session = InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array(words, dtype=object)})[0].tolist()


lower = run("StringLower", ["ÄÖÜ", "ДОМ", "ЁЛКА", "ŁÓDŹ", "КИЇВ", "ΣΑΣ"])
upper = run("StringUpper", ["house", "é ä д"])
print(*lower, *upper, sep="  ")
assert lower == ["äöü", "дом", "Ёлка", "ŁódŹ", "киЇв", "ΣΑΣ"]
assert upper == ["HOUSE", "é ä д"]
PY
