"""What is drawn first holds no frame up."""

import subprocess
import sys

PROGRAM = """
import sys
from khepri.tui import themes
from khepri.tui.code import Lexers
from khepri.tui.markdown_blocks import cut
from khepri.tui.paint import draw_markdown, warm_up

look = themes.look_of(themes.themes()[0], Lexers())
warm_up(look)
before = set(sys.modules)
for piece in cut("# A\\n\\nb `c` [d](e)\\n\\n> f\\n\\n- g\\n\\n|h|i|\\n|-|-|\\n|1|2|\\n\\n```python\\nj = 1\\n```\\n"):
    draw_markdown(piece, look, 60)
print(*sorted(set(sys.modules) - before))
"""


def test_nothing_is_loaded_with_the_first_table_or_code_block() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
