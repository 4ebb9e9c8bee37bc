"""What nodes and kernels cost: FLOPs, bytes, intensity, time, memory."""
