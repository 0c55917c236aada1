"""Native libraries behind the ``Backend`` seam, one module each.

What a library must find in the environment is put there here: this runs before any of them is loaded.
"""

import os

# A failed assertion of ggml's would start a debugger, which holds the dying process and fills the terminal.
os.environ["GGML_NO_BACKTRACE"] = "1"
# The threads of a pass meet a thousand times and spin while they wait for each other, by GNU OpenMP's own measure for
# milliseconds. Where another program has one of the cores, the others burn theirs: passes then took five times as long,
# single ones sixty times. With a shorter spin it was two to three times; on quiet cores it made no difference.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
