"""The build of the native library: the right flags, one wheel for each machine, and words for what is missing."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from requirements.native_wheel import (
    LIBRARIES,
    BuildError,
    accepts,
    cmake_args,
    find_compiler,
    processor,
    progress,
    wheel_folder,
)

SCRIPT = Path(__file__).resolve().parent.parent / "requirements" / "native_wheel.py"


def compiler(folder: Path, name: str, refuses: str = "") -> str:
    """Put a compiler into ``folder`` that refuses one flag and takes everything else."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nfor flag in "$@"; do [ "$flag" = "{refuses}" ] && exit 1; done\nexit 0\n')
    path.chmod(0o755)
    return str(path)


def test_amx_is_turned_off_when_both_compilers_know_the_flags(tmp_path: Path) -> None:
    environment = {"CC": compiler(tmp_path, "cc"), "CXX": compiler(tmp_path, "c++"), "PATH": os.environ["PATH"]}
    arguments = cmake_args(environment, "x86_64")
    assert arguments.count("-mno-amx-tile -mno-amx-int8 -mno-amx-bf16") == 2
    assert "march" not in arguments


def test_amx_flags_are_left_out_when_one_compiler_refuses_one_of_them(tmp_path: Path) -> None:
    old = compiler(tmp_path, "c++", refuses="-mno-amx-bf16")
    environment = {"CC": compiler(tmp_path, "cc"), "CXX": old, "PATH": os.environ["PATH"]}
    assert cmake_args(environment, "x86_64") == "-DLLAVA_BUILD=OFF"


def test_other_processors_get_no_amx_flags_and_the_callers_own_arguments_come_last(tmp_path: Path) -> None:
    environment = {"CC": compiler(tmp_path, "cc"), "CXX": compiler(tmp_path, "c++"), "CMAKE_ARGS": "-DGGML_BLAS=ON"}
    assert cmake_args(environment, "arm64") == "-DLLAVA_BUILD=OFF -DGGML_BLAS=ON"


def test_the_second_library_is_compiled_without_what_is_never_asked_of_it(tmp_path: Path) -> None:
    environment = {"CC": compiler(tmp_path, "cc"), "CXX": compiler(tmp_path, "c++")}
    assert cmake_args(environment, "arm64", LIBRARIES["ik"]) == "-DGGML_IQK_FA_ALL_QUANTS=OFF"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake here")
def test_what_the_second_archive_lacks_is_put_there_before_it_is_called(tmp_path: Path) -> None:
    library = LIBRARIES["ik"]
    assert "build-info" in library.pinned
    source = tmp_path / "vendor" / "ik_llama.cpp"
    (source / "common").mkdir(parents=True)
    (source / "common" / "build-info.cpp.in").write_text('int n = @BUILD_NUMBER@; char const *c = "@BUILD_COMMIT@";\n')
    (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.21)\nproject({library.project} NONE)\n")
    include = f"-DCMAKE_PROJECT_{library.project}_INCLUDE={SCRIPT.parent / library.mending}"
    subprocess.run(["cmake", include, "-S", tmp_path, "-B", tmp_path / "build"], check=True, capture_output=True)
    script = source / "common" / "cmake" / "build-info-gen-cpp.cmake"
    subprocess.run(["cmake", "-P", script], cwd=source, check=True, capture_output=True)
    assert (source / "common" / "build-info.cpp").read_text() == 'int n = 0; char const *c = "0";\n'


def test_the_real_compiler_takes_a_known_flag_and_refuses_an_invented_one() -> None:
    cc = find_compiler(os.environ, "CC", ("cc", "gcc", "clang"))
    assert accepts(cc, ("-O2",), "c")
    assert not accepts(cc, ("-mno-such-flag",), "c")


def test_a_missing_compiler_is_named_with_the_ways_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no C compiler.*\n.*build-essential"):
        cmake_args({"PATH": str(tmp_path)}, "x86_64")
    done = subprocess.run(
        [sys.executable, "-m", "requirements.native_wheel"],
        cwd=SCRIPT.parent.parent,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "xcode-select --install" in done.stderr
    assert "Traceback" not in done.stderr


def test_each_thing_that_shapes_the_machine_code_has_its_own_folder(tmp_path: Path) -> None:
    environment = {"KHEPRI_WHEELS": str(tmp_path), "PATH": os.environ["PATH"]}
    folders = {
        wheel_folder(environment, "lock", "flags", "cpu"),
        wheel_folder(environment, "other lock", "flags", "cpu"),
        wheel_folder(environment, "lock", "other flags", "cpu"),
        wheel_folder(environment, "lock", "flags", "other cpu"),
        wheel_folder({**environment, "CFLAGS": "-O0"}, "lock", "flags", "cpu"),
    }
    assert len(folders) == 5
    assert wheel_folder(environment, "lock", "flags", "cpu") in folders


def test_the_processor_is_the_same_text_however_many_cores_report_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    core = "model name\t: Some CPU\ncpu MHz\t\t: {}\nflags\t\t: fpu avx2\n"
    one.write_text(core.format(1000))
    two.write_text(core.format(2000) + core.format(3000))
    assert processor(one) == processor(two) == "flags\t\t: fpu avx2\nmodel name\t: Some CPU"


def test_progress_counts_the_files_of_the_library_and_not_the_trials_of_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    lines = ["[1/2] trial", "noise", *(f"  [{n}/140] cc -c file{n}.c" for n in range(1, 141))]
    progress(iter(lines), started=0.0)
    assert "of 2 files" not in shown.getvalue()
    assert shown.getvalue().count("\n") == 11
    assert "140 of 140 files" in shown.getvalue()
