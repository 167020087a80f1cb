"""Skip-gram trainers for devices other than the CPU.

`words` may not import `gpu`, which is above it. Whoever knows both registers here how the trainer
of a device is loaded, and `words` asks for it when a user names the device.
"""

from collections.abc import Callable

_LOADERS: dict[str, Callable[[], Callable]] = {}


def register_trainer(device_type: str, load: Callable[[], Callable]) -> None:
    """Register what loads the trainer of a device type, such as "cuda"."""
    _LOADERS[device_type] = load


def skipgram_trainer(device: str) -> Callable:
    """Return the trainer of a device, such as "cuda:1"."""
    return _LOADERS[device.partition(":")[0]]()
