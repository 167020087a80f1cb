"""Skip-gram on a GPU: the extra `gpu` (PyTorch) and an NVIDIA GPU; without one, a line says so."""
