"""The paper as printed, beside its corrected form: to be read with the paper in hand.

Plain NumPy, one formula per function, no compiled code. What pacsent uses elsewhere is the
corrected form; here is what Nozawa and Sato (2019) print, what their experiments did, and by how
much the two differ.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "bound_simulation": ["BoundSimulation", "simulate_bound"],
    },
)
