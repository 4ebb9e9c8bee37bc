"""Graphs that others exported (ONNX files, torch.export programs) as model specs."""
