"""Rules: what they match, which of them wins, and that a command cannot hide behind another."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.agent.permission_rules import load_rules
from khepri.agent.permissions import Permissions, Rule, Verdict
from khepri.agent.readings import Clarity
from khepri.agent.shell_reading import read_line
from khepri.errors import ConfigError


def rule(verdict: Verdict, words: str) -> Rule:
    action, _, pattern = words.partition(" ")
    return Rule(verdict, action, pattern, "test")


HIDDEN = [
    "env -S'rm x'",
    "env '-Srm x'",
    "env -vS 'rm x'",
    "env --split-string='rm x'",
    "env -S '-i rm' x",
    "env --split 'rm x'",
    "env - rm x",
    "sudo -iu root rm x",
    "sudo --user root rm x",
    "sudo --unknown root rm x",
    "nohup -- rm x",
    "xargs --max-args 1 rm",
    "echo x | xargs -I{} sh -c 'rm {}'",
    "echo 'rm x' | xargs env",
    "echo rm | xargs -I@ @ x",
    "echo rm | xargs -I @ sh -c '@ x'",
    "echo rm | xargs -i env {} x",
    "bash -c -e 'rm x'",
    "bash -o pipefail -c 'rm x'",
    "bash -euo pipefail -c 'rm x'",
    "bash --norc -lc 'rm x'",
    "bash <<< 'rm x'",
    "echo 'rm x' | bash -s",
    "sh /dev/stdin <<E\nrm x\nE",
    "sudo -i",
    "su -c 'rm x'",
    "su root -c 'rm x'",
    "flock f -c 'rm x'",
    "flock f rm x",
    "watch rm x",
    "script -c 'rm x' f",
    "timeout 5 > f rm x",
    "sh /bin/rm",
    "bash -e ./rm x",
    "find . -exec rm {} \\;",
    "find . -name y -execdir sh -c 'rm x' \\; -print",
    "if true; then rm x; fi",
    "for x in a; do rm $x; done",
    "while rm x; do :; done",
    "case x in x) rm x;; esac",
    "{ rm x; }",
    "! rm x",
    "> f rm x",
    "2>&1 rm x",
    "f() { rm x; }; f",
    "A=$(rm x)",
    "export A=$(rm x)",
    'echo "a $(rm x)"',
    "cat <<E\n$(rm x)\nE",
    "diff <(rm x) y",
    "[[ -n $(rm x) ]]",
    "$'rm' x",
    "r\\m x",
    "r\\\nm x",
    '"r"m x',
    "{rm,x}",
    "${X:-rm} x",
    "trap 'rm x' EXIT",
    "alias a='rm x'\na",
    "python3 -c \"import os; os.system('rm x')\"",
    "python -Bc 'import os; os.system(\"/bin/rm x\")'",
    "perl -e 'system(\"rm x\")'",
    "awk 'BEGIN{system(\"rm x\")}'",
    "git -c alias.a='!rm x' a",
    "uv run rm x",
    "uv run --with a rm x",
    "poetry run env rm x",
    "PATH=. true; rm x",
    "exec -a y rm x",
    "busybox rm x",
    "busybox sh -c 'rm x'",
    "timeout -k 5 5 rm x",
    "timeout --signal KILL 5 rm x",
    "nice -5 rm x",
    "coproc rm x",
    "time -p rm x",
    "sh -c 'sh -c \"sh -c rm\"'",
]
UNKNOWN = [
    "git bisect run rm x",
    "git submodule foreach 'rm x'",
    "git rebase --exec 'rm x' HEAD~1",
    "git rebase -x'rm x' HEAD~1",
    "git filter-branch --tree-filter 'rm x'",
    "git fetch --upload-pack='rm x' origin",
    "setpriv rm x",
    "prlimit --nofile=10 rm x",
    "setarch x86_64 rm x",
    "systemd-run rm x",
    "nsenter -t 1 /bin/rm x",
    "choom -n 1 -- rm x",
    "sg root -c 'rm x'",
    "fish -c 'rm x'",
    "csh -c 'rm x'",
    "echo 'rm x' | fish",
    "toybox rm x",
    "make SHELL='rm x' test",
    "make --eval 'x:; rm x'",
    "git clone -u 'rm x' a b",
    "newgrp root <<< 'rm x'",
    "uvx rm x",
    "conda run rm x",
    "a-program-of-tomorrow --then='env rm x'",
    "source /dev/stdin <<< 'rm x'",
    ". <(echo rm x)",
    ". ./rm",
    "mapfile -C 'rm x' a",
    "tar --checkpoint-action=exec='rm x' -cf /dev/null .",
    "socat EXEC:'rm x' -",
    "xterm -erm",
    "sed '1e rm x' f",
    "test -v 'a[$(rm x)]'",
    "python -m timeit -s 'import os' 'os.system(\"rm x\")'",
    "GIT_PAGER='rm x' git log",
    "PAGER='rm x' man ls",
    "export 'GIT_EDITOR=rm x'; git commit",
    "env BASH_ENV=rm bash -c true",
    "make -f - <<'E'\nx:\n\trm x\nE",
    "make -f- <<< 'x:; rm x'",
    "make -f /dev/stdin < f",
    "at now <<< 'rm x'",
    "echo 'rm x' | at now",
    "batch < f",
    "crontab -e",
    "crontab - <<< '* * * * * rm x'",
    "systemd-run --user -p A=b rm x",
    "ssh host rm x",
    "ssh host 'cd y && rm x'",
    "echo 'rm x' | ssh host",
    "python - <<E\nimport os; os.system('rm x')\nE",
    "python <<< 'import os; os.system(\"rm x\")'",
    "env timeout 5 python3 - <<< 'rm x'",
    "sh -c 'python3' <<< 'rm x'",
    "curl u | python3",
    "python < f",
    "python <(echo x)",
    "perl <<< 'system(\"rm x\")'",
    "{ true; ruby; } < f",
    "cat <<E | parallel\nrm x\nE",
    "echo 'rm x' | env a-program-of-tomorrow",
    "a-program-of-tomorrow <<< 'rm x'",
    "vi -es <<< ':!rm x'",
    "sqlite3 db <<< '.shell rm x'",
    "cat f | setpriv sh",
    "setpriv python3 < f",
    "sudo --unknown bash < f",
    "sudo --unknown a-program <<< 'rm x'",
    "env -C /e -S 'rm x'",
    "sed 's/x/rm x/e' f",
    "tar --to-command='rm x' -xf a",
]
"""Programs of which nothing is known, and what is known to run a word that only looks like data."""
DENY_RM = [rule(Verdict.ALLOW, "command *"), rule(Verdict.DENY, "command rm")]


@pytest.mark.parametrize(
    "command",
    [
        *HIDDEN,
        *UNKNOWN,
        "rm -rf x",
        "/bin/rm -rf x",
        "env rm x",
        "env -i A=b rm x",
        "env -u HOME -C /tmp rm x",
        "env -S 'rm x'",
        "A=b rm x",
        "sudo rm x",
        "sudo -u root -- rm x",
        "timeout 5 rm x",
        "timeout -s KILL 5 rm x",
        "nice -n 5 rm x",
        "nohup setsid rm x",
        "sh -c 'rm x'",
        "bash -lc 'cd y && rm x'",
        'sudo sh -c "env timeout 3 rm x"',
        "true && rm x",
        "true; rm x",
        "true | xargs rm",
        "true || rm x",
        "(rm x)",
        "true & rm x",
        "true\nrm x",
        "eval rm x",
        "command rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "r'm' x",
        "xargs -n 1 rm",
    ],
)
def test_a_denied_command_is_found_behind_everything(command: str) -> None:
    assert Permissions(DENY_RM).command(command).verdict is Verdict.DENY
    assert Permissions(DENY_RM, is_approved=True).command(command).verdict is Verdict.DENY


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "rmdir x",
        "echo rm",
        "grep rm x",
        "npm run test",
        "pytest -q 2>&1 | tail -5",
        "cd x && python -m pytest -c rm.ini tests/test_rm.py",
        "A=1 timeout 5 pytest $(cat x)",
        "env A=rm pytest",
        "uv run pytest -q",
        "bash check.sh rm",
        "if test -f rm; then make; fi",
        "git -C rm status",
        "find . -name rm -print",
        "git commit -m 'rm x'",
        "git rm x",
        "git push -u origin fix/rm",
        "git stash push -u -m 'rm x'",
        "make rm",
        "tox -e rm",
        "python check.py rm",
        "setpriv make x > out.txt 2> /dev/null",
        ". venv/bin/activate && pytest",
        "test 'a[1]' = rm",
        "printf '%s' rm",
    ],
)
def test_other_commands_are_not(command: str) -> None:
    assert Permissions(DENY_RM).command(command).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command", ["$X y", "sh -c", "echo 'open", "sh", "echo x | sh", "eval $X", "/bin/r? x", "alias a=b"]
)
def test_what_cannot_be_understood_is_never_allowed_by_a_rule_and_denied_where_anything_is(command: str) -> None:
    assert read_line(command).clarity is Clarity.OPAQUE
    allowed = [rule(Verdict.ALLOW, "command *")]
    assert Permissions(allowed).command(command).verdict is Verdict.ASK
    assert Permissions(DENY_RM, is_approved=True).command(command).verdict is Verdict.DENY


@pytest.mark.parametrize(
    "command", ["git push -f", "git -C x --no-pager push", "git $X", "git -c a.b=c push", "git p''ush"]
)
def test_a_denied_subcommand_is_found_behind_options_and_variables(command: str) -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command *"), rule(Verdict.DENY, "command git push")])
    assert rules.command(command).verdict is Verdict.DENY
    assert rules.command("git pull && git status $X").verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "python -m pytest -q",
        "python3.11 -Bm pytest",
        "python -mpytest",
        "env A=b timeout 3 python -m pytest.__main__ -q",
        "python -m coverage run -m pytest -q",
        "bash -c 'python -m pytest'",
    ],
)
def test_a_denied_program_is_denied_as_a_module_of_python_too(command: str) -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command *"), rule(Verdict.DENY, "command pytest")])
    assert rules.command(command).verdict is Verdict.DENY
    for other in ("python -m build pytest", "python check.py pytest", "python -m unittest"):
        assert rules.command(other).verdict is Verdict.ALLOW


def test_a_program_is_allowed_by_its_very_path_and_denied_in_any_place() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command pytest"), rule(Verdict.ALLOW, "command ./check.sh")])
    assert rules.command("./check.sh -v").verdict is Verdict.ALLOW
    assert rules.command("./pytest").verdict is rules.command("/tmp/check.sh").verdict is Verdict.ASK
    denied = Permissions([rule(Verdict.ALLOW, "command *"), rule(Verdict.DENY, "command ./deploy.sh")])
    for line in ("./deploy.sh", "deploy.sh now", "cd x && sh ../deploy.sh", "bash deploy.sh"):
        assert denied.command(line).verdict is Verdict.DENY


def test_code_and_changed_paths_are_not_allowed_by_a_rule_for_the_program() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command python"), rule(Verdict.ALLOW, "command pytest")])
    assert rules.command("python -m pytest").verdict is Verdict.ALLOW
    assert rules.command("python -c 'print(1)'").verdict is Verdict.ASK
    assert rules.command("PATH=. pytest").verdict is Verdict.ASK
    assert rules.command("env PATH=. pytest").verdict is Verdict.ASK
    assert rules.command("PYTHONPATH=src pytest").verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *(
            "PYTHONPATH=/evil pytest",
            "PYTHONPATH=src:../evil pytest",
            "PYTHONPATH=$X pytest",
            "PYTEST_ADDOPTS=-px pytest",
        ),
        *("LD_AUDIT=x pytest", "LD_PRELOAD=x pytest", "BASH_ENV=x pytest", "GIT_DIR=x pytest", "PAGER=x pytest"),
        *(
            "export LD_AUDIT=x; pytest",
            "declare -x EDITOR=x && pytest",
            "env LD_AUDIT=x pytest",
            "export 'ENV=x'; pytest",
        ),
        *("pytest > /etc/x", "pytest >> ~/.bashrc", "pytest &> ../x", "pytest > $X", "pytest > .git/hooks/pre-commit"),
        *(
            "(pytest) > /etc/x",
            "sh -c 'pytest > /etc/x'",
            "sudo pytest",
            "sudo -u me env A=1 pytest",
            "chroot x pytest",
        ),
        *("for PATH in /x; do pytest; done", "for LD_PRELOAD in /x; do pytest; done", "printf -v PATH x; pytest"),
        *("time -o /etc/x pytest", "time -ao/etc/x pytest", "time --output=../x pytest", "script -qc pytest /etc/x"),
        *("strace -o /etc/x pytest", "strace -o $X pytest", 'pytest "${a:-`b`}"', "pytest <<E\n`b`\nE"),
    ],
)
def test_a_rule_allows_no_more_than_the_command_itself(command: str) -> None:
    allowed = [rule(Verdict.ALLOW, f"command {words}") for words in ("pytest", "export", "declare", "printf", "script")]
    assert Permissions(allowed).command("pytest").verdict is Verdict.ALLOW
    assert Permissions(allowed).command(command).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    [
        *(
            "pytest $X",
            'pytest "$X"',
            "pytest ${X:-a}",
            'pytest -q "a$(echo b)"',
            "pytest `echo a`",
            "pytest <(echo a)",
        ),
        *("pytest {a,b}", "pytest tests/*.py", "pytest [ab].py", "pytest ~/x", "pytest $((1+1))", 'pytest "$@"'),
        *("for f in a b; do pytest $f; done", "nohup pytest $X", "echo a | xargs pytest", "find . -exec pytest {} +"),
        *("timeout $X pytest", "timeout {5,rm} pytest", "nice -n $X pytest", "env A=$X pytest", 'env A="$@" pytest'),
    ],
)
def test_a_rule_allows_nothing_of_which_it_cannot_know_what_the_shell_makes(command: str) -> None:
    allowed = [rule(Verdict.ALLOW, f"command {words}") for words in ("pytest", "pytest*", "echo", "find")]
    assert Permissions(allowed).command(command).verdict is Verdict.ASK
    assert Permissions([*allowed, rule(Verdict.DENY, "command pytest")]).command(command).verdict is Verdict.DENY


@pytest.mark.parametrize("command", ["pytest '$X' 'a*'", r"pytest \$X a\*", 'pytest "a*b" "{a,b}"', "pytest -k a~b"])
def test_a_rule_allows_words_that_the_shell_leaves_as_they_are(command: str) -> None:
    assert Permissions([rule(Verdict.ALLOW, "command pytest")]).command(command).verdict is Verdict.ALLOW


def test_a_rule_that_says_a_variable_itself_allows_it() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command pytest $TESTS")])
    assert rules.command("pytest $TESTS").verdict is Verdict.ALLOW
    assert rules.command("pytest $OTHERS").verdict is rules.command("pytest $TESTS $X").verdict is Verdict.ASK


@pytest.mark.parametrize("command", ["timeout $X pytest", "bash -o $X -c ls", "git -C $X status", "env A=$X pytest"])
def test_a_variable_that_may_name_another_command_is_denied_where_anything_is(command: str) -> None:
    assert Permissions(DENY_RM, is_approved=True).command(command).verdict is Verdict.DENY
    quoted = Permissions(DENY_RM, is_approved=True)
    assert quoted.command('env A="$X" pytest').verdict is quoted.command('git -C "$X" log').verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("A=1 pytest", "PYTHONPATH=src:lib pytest", "env PYTHONPATH=. pytest", "time pytest", "timeout 5 pytest"),
        *("time -o x pytest", "time -f '%e' pytest", "strace -f -o x pytest", 'for f in a; do env A="$f" pytest; done'),
        *("pytest > out.txt 2>&1", "pytest >> logs/x 2> /dev/null", "pytest < /etc/passwd", "pytest >&2"),
    ],
)
def test_a_rule_allows_a_command_whose_surroundings_change_nothing_outside(command: str) -> None:
    assert Permissions([rule(Verdict.ALLOW, "command pytest")]).command(command).verdict is Verdict.ALLOW


ALLOWED = (
    "make tox pytest python node bash at crontab systemd-run ssh sed tar rsync man vim sort git find cd env".split()
)


@pytest.mark.parametrize(
    "command",
    [
        *("make -f /elsewhere/Makefile", "make -C ..", "make --file=../M x", "tox -c /e/tox.ini", "pytest -c /e/x.ini"),
        *(
            "make -f - < f",
            "cd .. && make",
            "cd && make",
            "cd /e; pytest",
            "env -C /e make",
            "env -C /e -S make",
            "git -C /e status",
        ),
        *("python /tmp/x.py", "bash ../x.sh", ". /e/x", "python <<< 'print(1)'", "python", "node < f", "python $X"),
        "python -m $X",
        *("python -mtimeit x", "python -m pdb x.py", "python -Xdev -c x"),
        *("at -f f now", "at now", "crontab f", "crontab -r", "systemd-run x", "ssh host x", "ssh host"),
        *("sed 's/x/y/e' f", "sed -n '1e' f", "sed -e p -e 's|a|b|w f' f", "sed -f f g", "sed '/a/,$ s/b/c/gme' f"),
        *("sed 's/[/]/;s/e;s/a/b/' f", "sed --expression=e f", "sed 's/a/b/;e x' f", "sed '1!{p;e\n}' f"),
        *("tar --to-command=./x -xf a", "tar -I ./x -cf a b", "tar cIf ./x a", "rsync -e ./x a b", "rsync -ae./x a b"),
        *("man -P ./x ls", "sort --compress-program=./x f", "vim -c ':!x' f", "vim +q f"),
        *("git config core.pager x", "git an-alias", "git bisect run ./x", "git rebase -x ./x a", "git grep -O./x a"),
        *("git submodule foreach ./x", "git clone -u ./x a b", "git difftool", "git -c alias.x=y x"),
        *("find . -exec x {} +", "find . -execdir sh -c x \\;"),
        *(
            "make --eval='x:;y'",
            "make --ev x:",
            "make -kE 'x:;y'",
            "make SHELL=/tmp/x",
            "make SHELL:=./x t",
            "make CC=x",
        ),
        *(
            "make 'X!=y'",
            "make X='$(shell y)'",
            "make X='a;y'",
            "make RUN=/e/x",
            "make .SHELLFLAGS=x",
            "make MAKEFLAGS=-E",
        ),
        *("GNUMAKEFLAGS=--eval=x make", "pytest -opythonpath=/tmp", "pytest -o pythonpath=/tmp", "pytest @/tmp/args"),
        *(
            "pytest -qo addopts=-px",
            "pytest --override-ini=testpaths=/e",
            "pytest -o 'testpaths=t /e'",
            "pytest --tx x",
        ),
        *("python -m pytest -opythonpath=/e", "python -m pytest /e", "python -mpytest @a", "python -m tox -x a.b=c"),
        *("tox exec -- x", "tox -x testenv.commands=x", "timeout 5 make --eval x"),
    ],
)
def test_a_rule_for_a_program_allows_nothing_that_it_is_told_to_run(command: str) -> None:
    rules = Permissions([rule(Verdict.ALLOW, f"command {name}") for name in ALLOWED])
    assert rules.command(command).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("make", "make -f build.mk -j4 DESTDIR=/tmp/x install", "make -C sub test", "tox -e py", "pytest -q tests"),
        *(
            "make X=1 TEST=tests/a.py PREFIX=/usr -k",
            "make -j 4 ARGS='-x -q'",
            "pytest -o addopts= -q",
        ),
        *(
            "pytest -p no:cacheprovider -k 'a or b' -o log_cli=true",
            "pytest --run-slow",
            "python -m pytest -q tests -x",
        ),
        *("cd sub && make", "env -C sub make", "git -C sub status", "python x.py /etc/hosts", "python -m pytest"),
        *(
            "python -V",
            "python3.11 --version",
            "node -v",
            "python -W error x.py",
            "python -um x",
            "python -Wc x",
            "bash x.sh",
        ),
        *("sed 's/a/b/g' f", "sed -n '1,5p' f", "sed -i.bak -e 's|a|b|' -e '/x/d' f", "sed '$!N;P;D' f", "sed '' f"),
        *("sed -E 's/[a-e]+/e/' f", "sed 's/a/x/; s/b/e/' f", "sed '/a/,/b/{s/c/d/p}' f", "sed 's#/#e#' f"),
        *("tar -xzf a", "tar cf a INSTALL", "rsync -a a b", "git rebase main", "git submodule update", "git clone a b"),
        *(
            "git commit -m x",
            "git bisect good",
            "git ls-remote",
            "git count-objects",
            "git cherry-pick x",
            "git rev-parse x",
            "find . -name x -print",
            "sort -u f",
            "man ls",
            "crontab -l",
        ),
    ],
)
def test_a_rule_for_a_program_allows_its_ordinary_work(command: str) -> None:
    rules = Permissions([rule(Verdict.ALLOW, f"command {name}") for name in (*ALLOWED, "python3.11")])
    assert rules.command(command).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "wrapper", ["sudo", "env", "xargs", "sh", "eval", "time", "uv", "npx", "docker", "setpriv", "fish", "trap"]
)
def test_a_denied_wrapper_is_denied_whatever_it_runs(wrapper: str) -> None:
    rules = Permissions([rule(Verdict.DENY, f"command {wrapper}")], is_approved=True)
    for command in (f"{wrapper} run pytest", f"{wrapper} -c pytest", f"{wrapper} pytest"):
        assert rules.command(command).verdict is Verdict.DENY
    assert rules.command("pytest").verdict is Verdict.ALLOW


def test_more_power_is_allowed_by_a_rule_of_its_own() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command pytest"), rule(Verdict.ALLOW, "command sudo -u me pytest")])
    assert rules.command("sudo -u me pytest -q").verdict is Verdict.ALLOW
    assert rules.command("sudo pytest -q").verdict is Verdict.ASK
    assert rules.command("sudo -u me make").verdict is Verdict.ASK


def test_a_denied_subcommand_is_found_behind_a_program_of_unknown_habits() -> None:
    rules = Permissions([rule(Verdict.DENY, "command git push")], is_approved=True)
    for command in ("setpriv git -C x push", "a-program --run='git --no-pager push -f'", "setpriv git push"):
        ruling = rules.command(command)
        assert ruling.verdict is Verdict.DENY
        assert "cannot be told" in ruling.reason
    assert rules.command("setpriv git pull").verdict is Verdict.ALLOW


def test_a_line_of_ten_thousand_words_is_read() -> None:
    line = f"a-program '{'x ' * 10_000}rm y'"
    assert Permissions(DENY_RM).command(line).verdict is Verdict.DENY


def test_what_a_program_of_the_folder_is_told_to_run_is_denied() -> None:
    for line in ("make --eval='x:;rm y'", "make -f /e/M RUN=rm", "make -E 'x:;rm y'", "tox -c /e/x -x a.commands=rm"):
        assert Permissions(DENY_RM, is_approved=True).command(line).verdict is Verdict.DENY
    assert Permissions(DENY_RM, is_approved=True).command("make CC=clang check").verdict is Verdict.ALLOW


def test_every_part_of_a_line_has_to_be_allowed() -> None:
    rules = Permissions([rule(Verdict.ALLOW, "command pytest"), rule(Verdict.ALLOW, "command ruff *")])
    assert rules.command("pytest -q && ruff check").verdict is Verdict.ALLOW
    assert rules.command("pytest -q && make").verdict is Verdict.ASK
    assert rules.command("pytestx").verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("docs/a.md", Verdict.ALLOW),
        ("docs/secret/a.md", Verdict.DENY),
        ("src/a.py", Verdict.ASK),
        ("x.py", Verdict.ASK),
    ],
)
def test_the_strictest_rule_for_a_file_decides(path: str, verdict: Verdict) -> None:
    rules = [
        rule(Verdict.DENY, "edit docs/secret/**"),
        rule(Verdict.ALLOW, "edit docs/**"),
        rule(Verdict.ASK, "edit src/**"),
        rule(Verdict.ALLOW, "edit src/**"),
    ]
    ruling = Permissions(rules).edit(path)
    assert ruling.verdict is verdict
    assert ruling.reason
    approved = Permissions(rules, is_approved=True).edit(path).verdict
    assert approved is (Verdict.DENY if verdict is Verdict.DENY else Verdict.ALLOW)


@given(st.text(alphabet="rm x;&|()'\"$`\\-=\n<>", max_size=30))
def test_no_line_breaks_the_reader(command: str) -> None:
    assert isinstance(Permissions(DENY_RM).command(command).verdict, Verdict)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config" / "khepri").mkdir(parents=True)
    (tmp_path / "repository" / ".khepri").mkdir(parents=True)
    return tmp_path


def write(home: Path, user: str = "", repository: str = "") -> None:
    (home / "config" / "khepri" / "permissions.toml").write_text(user, encoding="utf-8")
    (home / "repository" / ".khepri" / "permissions.toml").write_text(repository, encoding="utf-8")


def test_a_repository_can_tighten(home: Path) -> None:
    write(home, 'allow = ["edit **", "command pytest"]', 'deny = ["edit migrations/**"]\nask = ["command pytest"]')
    rules = Permissions(load_rules(home / "repository"))
    assert rules.edit("a.py").verdict is Verdict.ALLOW
    assert rules.edit("migrations/1.py").verdict is Verdict.DENY
    assert rules.command("pytest").verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("user", "repository"),
    [
        ("", 'allow = ["edit **"]'),
        ('permit = ["edit **"]', ""),
        ('deny = "edit **"', ""),
        ('deny = ["write **"]', ""),
        ('deny = ["edit"]', ""),
        ("deny = [1]", ""),
    ],
)
def test_a_rule_that_is_none_is_an_error_and_a_repository_cannot_loosen(home: Path, user: str, repository: str) -> None:
    write(home, user, repository)
    with pytest.raises(ConfigError):
        load_rules(home / "repository")
