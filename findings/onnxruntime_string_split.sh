#!/usr/bin/env bash
# onnxruntime 1.32.0: StringSplit without a delimiter splits at U+0020 alone; onnx's reference splits as Python does.
# Guessed: both split at any white space. Seen for "a<tab>b" and "a<U+00A0>b": one part by onnxruntime, two by onnx
# 1.23.2.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession

x = helper.make_tensor_value_info("x", TensorProto.STRING, [1])
outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 8), ("z", 7))]
graph = helper.make_graph([helper.make_node("StringSplit", ["x"], ["y", "z"])], "graph", [x], outputs)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
found = []
for text in ("a  b", "a\tb", "a\u00a0b"):
    given = {"x": np.array([text], dtype=object)}
    counts = [int(each.run(None, given)[1][0]) for each in (session, ReferenceEvaluator(model))]
    print(ascii(text), "parts by onnxruntime and by onnx:", *counts)
    found.append(counts)
assert found == [[2, 2], [1, 2], [1, 2]]
PY
