"""What a model writes around the definition that it was asked for, in each language that has a grammar."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

TASK = "let mean return 0 for no values"
FILES = {
    "a.py": ("def mean(a):\n    return sum(a) / len(a)\n\n\nmain()\n", "return ", "return 0 if not a else "),
    "a.js": (
        "'use strict';\n\nfunction mean(a) {\n  return a.x;\n}\n\nmodule.exports = { mean };\n",
        "return ",
        "return !a ? 0 : ",
    ),
    "a.ts": (
        'import { x } from "./x";\n\nexport const mean = (a: number[]): number => {\n  return x(a);\n};\nmean([1]);\n',
        "return ",
        "return !a ? 0 : ",
    ),
    "a.go": (
        'package a\n\nimport (\n\t"fmt"\n\t"sort"\n)\n\nfunc Mean(a []int) int {\n\treturn fmt.F(sort.S(a))\n}\n',
        "\treturn ",
        "\tif a == nil {\n\t\treturn 0\n\t}\n\treturn ",
    ),
    "a.rs": (
        "use std::x;\n\npub fn mean(a: &[f64]) -> f64 {\n    x(a)\n}\n",
        "    x(a)",
        "    if a.is_empty() { 0.0 } else { x(a) }",
    ),
    "a.c": (
        "#include <stdio.h>\n\nint mean(int *a) {\n    return a[0];\n}\n\nint main(void) {\n    return mean(0);\n}\n",
        "return a",
        "if (!a) return 0;\n    return a",
    ),
    "a.rb": (
        "require 'set'\n\ndef mean(a)\n  a.sum / a.size\nend\n\nputs mean([1])\n",
        "  a.sum",
        "  return 0 unless a\n  a.sum",
    ),
    "a.php": ("<?php\nfunction mean($a) {\n    return $a;\n}\n\necho mean(1);\n", "return ", "return !$a ? 0 : "),
    "a.lua": ("local function mean(a)\n  return a.x\nend\n\nprint(mean({}))\n", "return ", "return not a and 0 or "),
    "a.sh": ("#!/bin/sh\nmean() {\n  echo $1\n}\n\nmean 1\n", "echo ", "echo 0 "),
    "a.kt": (
        "import a.B\n\nfun mean(a: List<Int>): Int {\n    return a.sum()\n}\n",
        "return ",
        "return if (a.isEmpty()) 0 else ",
    ),
}
STRAYS = {
    "a.py": ["print(mean([]))", "if mean([]): pass"],
    "a.js": ["console.log(mean({}));", "exports.mean = mean;", "if (mean) { mean({}); }"],
    "a.ts": ["console.log(mean([]));", "export default mean;"],
    "a.rb": ["puts mean([])"],
    "a.php": ["echo mean([]);", "mean([]);"],
    "a.lua": ["print(mean({ x = 1 }))"],
    "a.sh": ["echo done", "if true; then mean 2; fi"],
}


def name_of(path: str) -> str:
    return "Mean" if path == "a.go" else "mean"


def written(root: Path, path: str, change: str = "%s", source: str = "", task: str = TASK) -> str:
    """Return the file once a model has written its function anew, with something around it."""
    text, old, new = FILES[path]
    (root / path).write_text(source or text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(root)), path), name_of(path))
    code = change.replace("%s", target.text.replace(old, new))
    return rewritten(target, code, task).new_text


@pytest.mark.parametrize("path", FILES)
def test_the_definition_alone_is_taken_as_it_is(tmp_path: Path, path: str) -> None:
    text, old, new = FILES[path]
    assert written(tmp_path, path) == text.replace(old, new, 1)


@pytest.mark.parametrize(("path", "stray"), [(path, stray) for path in STRAYS for stray in STRAYS[path]])
@pytest.mark.parametrize("change", ["{}\n\n%s", "%s\n\n{}"])
def test_what_would_be_done_besides_is_refused(tmp_path: Path, path: str, stray: str, change: str) -> None:
    with pytest.raises(EditRefusedError) as caught:
        written(tmp_path, path, change.replace("{}", stray))
    assert caught.value.reason is Refusal.MALFORMED
    assert f"stands outside of {name_of(path)}" in caught.value.message
    assert "alone" in caught.value.hint


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("a.py", "%s\n\n\nmain()"),
        ("a.js", "'use strict';\n\n%s\n\nmodule.exports = { mean };"),
        ("a.ts", 'import { x } from "./x";\n\n%s\n\nmean([1]);'),
        ("a.go", 'package a\n\nimport (\n\t"fmt"\n\t"sort"\n)\n\n%s'),
        ("a.go", 'package a\n\nimport "sort"\n\n%s'),
        ("a.rs", "use std::x;\n\n%s"),
        ("a.c", "#include <stdio.h>\n\n%s"),
        ("a.rb", "require 'set'\n\n%s\n\nputs mean([1])"),
        ("a.kt", "import a.B\n\n%s"),
    ],
)
def test_what_stands_in_the_file_already_is_not_written_twice(tmp_path: Path, path: str, change: str) -> None:
    assert written(tmp_path, path, change) == written(tmp_path, path)


@pytest.mark.parametrize(
    ("path", "change", "added"),
    [
        ("a.go", 'package a\n\nimport (\n\t"errors"\n\t"sort"\n)\n\n%s', '\t"sort"\n\t"errors"\n)\n\nfunc'),
        ("a.ts", 'import { y } from "./y";\n\n%s', 'from "./x";\nimport { y } from "./y";\n\nexport'),
        ("a.rs", "use std::y;\n\n%s", "use std::x;\nuse std::y;\n\npub"),
        ("a.kt", "import a.C\n\n%s", "import a.B\nimport a.C\n\nfun"),
        ("a.c", "#include <math.h>\n%s", "#include <stdio.h>\n#include <math.h>\n\nint"),
        ("a.js", 'import { y } from "./y";\n\n%s', "'use strict';\n\nimport { y } from \"./y\";\n\nfunction"),
    ],
)
def test_a_new_import_stands_with_the_others(tmp_path: Path, path: str, change: str, added: str) -> None:
    assert added in written(tmp_path, path, change)


def test_an_import_that_binds_a_name_anew_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="x is imported already"):
        written(tmp_path, "a.ts", 'import { x, y } from "./x";\n\n%s')


@pytest.mark.parametrize(
    ("path", "change", "value"),
    [
        ("a.py", "NOTHING: int = 0\n\n\n%s", "NOTHING"),
        ("a.js", "const NOTHING = 0;\n\n%s", "NOTHING"),
        ("a.go", "// Nothing is what is returned.\nvar Nothing = 0\n\n%s", "Nothing"),
        ("a.rs", "const NOTHING: f64 = 0.0;\n\n/// The mean.\n#[inline]\n%s", "NOTHING"),
        ("a.c", "static int nothing;\n\n%s", "nothing"),
        ("a.lua", "local nothing = 0\n%s", "nothing"),
        ("a.kt", "private val nothing = 0\n\n%s", "nothing"),
        ("a.ts", "/** The mean. */\n%s\n\nfunction helper(): void {}", "0"),
    ],
)
def test_what_the_new_version_uses_and_what_is_said_of_it_may_come_along(
    tmp_path: Path, path: str, change: str, value: str
) -> None:
    text, old, new = FILES[path]
    new = new.replace("0.0", value) if "0.0" in new else new.replace("0", value)
    (tmp_path / path).write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(tmp_path)), path), name_of(path))
    assert rewritten(target, change.replace("%s", target.text.replace(old, new)), TASK).after


def test_an_unused_value_does_not_come_along(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="outside of mean"):
        written(tmp_path, "a.js", "const started = begin();\n\n%s")


def test_members_beside_a_method_are_looked_at_as_well(tmp_path: Path) -> None:
    text = "class Box {\n  size() {\n    return this.a;\n  }\n}\n"
    (tmp_path / "b.js").write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(tmp_path)), "b.js"), "Box.size")
    size = "  size() {\n    return this.a || 0;\n  }"
    assert rewritten(target, size, "let size return 0 at least").new_text == text.replace("this.a", "this.a || 0")
    with pytest.raises(EditRefusedError, match="outside of size"):
        rewritten(target, f"  static {{ begin(); }}\n{size}", "let size return 0 at least")
