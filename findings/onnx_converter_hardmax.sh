#!/usr/bin/env bash
# onnx 1.23.2: version_converter changes what Hardmax computes from opset 11 to 13, and Softmax from 13 to 12.
# Guessed: the converted model computes the same, or the conversion is refused. From 11 to 13 Softmax gets nodes that
# flatten it, since its axis has another meaning there. Seen: Hardmax gets none, and finds other maxima: with axis 1,
# four ones for each 3 by 4 scores instead of one. After 13 to 12, sums over the axis of Softmax are no longer 1.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import numpy as np
from onnx import TensorProto, helper, version_converter
from onnxruntime import InferenceSession

scores = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)


def results(operator, before, after):
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], axis=1)], "graph", sides[:1], sides[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", before)], ir_version=8)
    for each in (model, version_converter.convert_version(model, after)):
        session = InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        yield session.run(None, {"x": scores})[0]


cases = ("Softmax", 11, 13, True), ("Hardmax", 11, 13, False), ("Softmax", 13, 12, False)
for operator, before, after, same in cases:
    old, new = results(operator, before, after)
    print(operator, before, "to", after, "sums over axis 1:", *old.sum(1)[0].round(2), "->", *new.sum(1)[0].round(2))
    assert np.allclose(old, new) == same
PY
