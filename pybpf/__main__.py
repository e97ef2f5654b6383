"""``python -m pybpf`` is the same program as ``pybpf``."""

import sys

from pybpf.cli import main

if __name__ == "__main__":
    sys.exit(main())
