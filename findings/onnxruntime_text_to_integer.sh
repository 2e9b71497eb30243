#!/usr/bin/env bash
# onnxruntime 1.32.0: Cast from text to int64 takes the digits at the beginning and ignores the rest.
# Guessed: an error. Seen: "1e3" is 1 as int64 and 1000.0 as float, "0x10" is 0 and 16.0, "12abc" is 12 in both.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import numpy as np
from onnx import TensorProto, helper
from onnxruntime import InferenceSession


def cast(kind, texts):
    kinds = (("x", TensorProto.STRING), ("y", kind))
    x, y = (helper.make_tensor_value_info(name, each, [len(texts)]) for name, each in kinds)
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=kind)], "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array(texts, dtype=object)})[0].tolist()


texts = ["1e3", "0x10", "12abc"]
integers, floats = cast(TensorProto.INT64, texts), cast(TensorProto.FLOAT, texts)
print(texts, "as int64", integers, "as float", floats)
assert integers == [1, 0, 12] and floats == [1000.0, 16.0, 12.0]
PY
