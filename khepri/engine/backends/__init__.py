"""Native libraries behind the ``Backend`` seam, one module each.

What a library must find in the environment is put there here: this runs before any of them is loaded.
"""

import os

# A failed assertion of ggml's would start a debugger, which holds the dying process and fills the terminal.
os.environ["GGML_NO_BACKTRACE"] = "1"
