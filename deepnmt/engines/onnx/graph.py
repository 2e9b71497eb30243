"""An ONNX graph, put together operation by operation.

The graph is written directly rather than traced from torch, which takes half a minute per model. The tests can
therefore run every kind of model through ONNX Runtime, and each operation is chosen here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NewType, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from deepnmt.errors import UserError

# The name of a tensor of the graph.
Value = NewType("Value", str)
Attribute = Union[int, float, str, Sequence[int]]

# The first version of ONNX's operations that has Gelu, and the oldest file format that allows it.
OPERATIONS, FORMAT = 20, 9
# Of the operations that ONNX Runtime has beyond those.
OWN = "com.microsoft"
FLOAT, INTEGER = TensorProto.FLOAT, TensorProto.INT64
# Of the weights of a graph, in bytes: a file of the format may have 2 GiB.
LARGEST = 2**31 - 2**24


class Graph:
    """Collects inputs, constants, operations and outputs.

    Axes of inputs and outputs are numbers or names; axes of one name are equally long. With `int8`, products of rows by
    a model's matrices are of 8-bit numbers (`layers.py`).
    """

    def __init__(self, int8: bool = False) -> None:
        self.int8 = int8
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[Value, np.ndarray] = {}
        self._shared: dict[tuple[str, Value], tuple[Value, ...]] = {}
        self._names: dict[str, str] = {}  # of outputs, by values

    def input(self, name: str, kind: int, *axes: str | int) -> Value:
        """Return a new input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(axes)))
        return Value(name)

    def output(self, name: str, kind: int, value: Value, *axes: str | int) -> None:
        """Let the result of an operation be an output."""
        # Under its own name: an operation that only renames it would copy it.
        self._names[value] = name
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(axes)))

    def op(self, kind: str, *inputs: Value, **attributes: Attribute) -> Value:
        """Return the first output of a new operation; see https://onnx.ai/onnx/operators."""
        return self.op_with_outputs(1, kind, *inputs, **attributes)[0]

    def op_with_outputs(self, outputs: int, kind: str, *inputs: Value, **attributes: Attribute) -> list[Value]:
        """Return all outputs of a new operation."""
        names = [Value(f"{kind}_{len(self._nodes)}_{index}") for index in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), list(names), **attributes))  # type: ignore[arg-type]
        return names

    def integers(self, *numbers: int) -> Value:
        """Return a constant vector of integers."""
        return self.constant(np.array(numbers, dtype=np.int64))

    def number(self, value: float) -> Value:
        """Return a constant without axes."""
        return self.constant(np.array(value, dtype=np.float32))

    def constant(self, values: np.ndarray) -> Value:
        """Return a constant."""
        name = Value(f"constant_{len(self._constants)}")
        self._constants[name] = values
        return name

    def weight(self, tensor: Tensor) -> Value:
        """Return a constant of a model's numbers."""
        return self.constant(tensor.detach().float().contiguous().numpy())

    def once(self, name: str, x: Value, make: Callable[[], tuple[Value, ...]]) -> tuple[Value, ...]:
        """Return what `make` makes of x; under the same name it is made once."""
        if (name, x) not in self._shared:
            self._shared[name, x] = make()
        return self._shared[name, x]

    def model(self, facts: Mapping[str, str]) -> onnx.ModelProto:
        """Return the graph as a model, checked, with facts about it. Raises `UserError` if it is too large."""
        size = sum(values.nbytes for values in self._constants.values())
        if size > LARGEST:
            raise UserError(
                f"--engine onnx: a graph must be smaller than 2 GB, but has {size / 1e9:.1f} GB; use --engine torch"
            )
        constants = [numpy_helper.from_array(values, name) for name, values in self._constants.items()]
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [self._names.get(name, name) for name in names]
        graph = helper.make_graph(self._nodes, "deepnmt", self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", OPERATIONS), helper.make_opsetid(OWN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=FORMAT, producer_name="deepnmt")
        helper.set_model_props(model, dict(facts))
        onnx.checker.check_model(model)
        return model
