"""What a careless or hostile user does: every case ends well, or is refused in one line.

`python -m hostile` in `tests` (`make hostile`) runs all kinds of cases but damaged files, which
`python -m hostile damaged --seconds 600` makes without end (`make fuzz`). Both count how the cases
end; a traceback, a crash, a hang, an unclear message or a wrong result is a failure.
"""

import os

# A child process must not wait for OpenMP threads that only its parent has.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
