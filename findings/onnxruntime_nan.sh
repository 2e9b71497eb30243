#!/usr/bin/env bash
# onnxruntime 1.32.0, CPU: NaN is the largest value to TopK, but ArgMax and ReduceMax see it in the first place alone.
# Guessed: ArgMax finds NaN wherever it stands, as torch does. Seen in [1, NaN, 3]: TopK 1 (NaN), ArgMax 2, ReduceMax 3.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import numpy as np
from onnx import TensorProto, helper
from onnxruntime import InferenceSession


def run(values):
    nodes = [
        helper.make_node("TopK", ["x", "one"], ["top", "place"]),
        helper.make_node("ArgMax", ["x"], ["argmax"], axis=0, keepdims=0),
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[0], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    outputs = [("place", 7, [1]), ("argmax", 7, []), ("most", 1, [])]
    results = [helper.make_tensor_value_info(*each) for each in outputs]
    graph = helper.make_graph(nodes, "graph", [x], results, [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (place,), argmax, most = session.run(None, {"x": np.array(values, np.float32)})
    return int(place), int(argmax), str(most)


nan = float("nan")
found = [run(values) for values in ([nan, 1, 3], [1, nan, 3], [1, 3, nan])]
print("TopK, ArgMax, ReduceMax with NaN first, in the middle and last:", found)
assert found == [(0, 0, "nan"), (1, 2, "3.0"), (2, 1, "3.0")]
PY
