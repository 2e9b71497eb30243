"""ONNX Runtime: encoder and step as graphs, and a beam search in numpy."""
