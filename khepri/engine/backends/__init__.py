"""Native libraries behind the ``Backend`` seam, one module each.

What a library must find in the environment is put there here: this runs before any of them is loaded.
"""

import os

# A failed assertion of ggml's would start a debugger, which holds the dying process and fills the terminal.
os.environ["GGML_NO_BACKTRACE"] = "1"
# Threads of a pass meet a thousand times and spin while they wait, a thousandth of a second and more by GNU OpenMP's own
# measure. Where another program takes one of the cores, all others then burn theirs: passes took up to sixty times as
# long, and with a shorter spin two to three times. On quiet cores it makes no difference.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
