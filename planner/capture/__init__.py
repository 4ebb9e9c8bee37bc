"""CUDA Graph capture: which mode runs, at which captured size, and what launching costs."""
