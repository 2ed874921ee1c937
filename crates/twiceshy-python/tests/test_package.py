"""The package as a whole: its documentation, its types, and where it can be loaded."""

import doctest
import pathlib
import re
import subprocess
import sys

import pytest

import twiceshy
from twiceshy import _guard, _store, _twiceshy

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "crates" / "twiceshy-python"


@pytest.mark.parametrize("module", [twiceshy, _guard, _store])
def test_examples_of_the_modules(module):
    assert doctest.testmod(module).failed == 0


def test_examples_of_the_filter():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    tests = finder.find(_twiceshy.Filter, module=False)
    assert sum(len(test.examples) for test in tests) >= 8
    for test in tests:
        assert runner.run(test).failed == 0


READMES = [ROOT / "README.md", ROOT / "docs/guide/python.md", PACKAGE / "README.md"]


@pytest.mark.parametrize("readme", READMES, ids=str)
def test_examples_of_the_readmes(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(readme), "exec"), names)


def test_everything_has_a_docstring():
    for name in twiceshy.__all__:
        item = getattr(twiceshy, name)
        assert item.__doc__, name
        if isinstance(item, type):
            public = [method for method in vars(item) if not method.startswith("_")]
            assert [method for method in public if not getattr(item, method).__doc__] == []


def test_a_subinterpreter_is_refused_with_a_reason(in_python):
    program = """
import sys
import twiceshy
name = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
interpreters = __import__(name)
inner = '''
try:
    import twiceshy
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    raise SystemError("it was loaded")
'''
failed = interpreters.run_string(interpreters.create(), inner)
assert failed is None, failed
print("refused")
"""
    assert "refused" in in_python(program)


def test_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import twiceshy\n"
        "seen = twiceshy.Filter(1000, rate=0.01)\n"
        "size: int = seen.stats()['len']\n"
        "def find(name: str) -> int | None: ...\n"
        "users: twiceshy.Guard[int] = twiceshy.Guard('d', find)\n"
        "age: int | None = users.get('a')\n"
        "known: int = users.get('a', 7)\n"
        "async def later(name: str) -> int | None: ...\n"
        "async def main() -> None:\n"
        "    age: int | None = await twiceshy.Guard('e', later).aget('a')\n"
        "@twiceshy.guard('f')\n"
        "def guarded(name: str) -> int | None: ...\n"
        "found: int | None = guarded('a')\n"
        "guarded.guard.close()\n"
        "value: bytes | None = twiceshy.open('g').get('a')\n"
        "wrong: str = seen.add(1)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    checked = subprocess.run([*mypy, str(program)], capture_output=True, text=True)
    assert re.findall(r"^.* error: .*$", checked.stdout, re.M) == [
        f"{program}:16: error: Incompatible types in assignment "
        '(expression has type "bool", variable has type "str")  [assignment]'
    ], checked.stdout


def test_the_package_is_typed(tmp_path):
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    checked = subprocess.run([*mypy, "-p", "twiceshy"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    stubtest = [sys.executable, "-m", "mypy.stubtest", "--allowlist", "/dev/null"]
    checked = subprocess.run([*stubtest, "twiceshy"], capture_output=True, text=True, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_a_relative_directory_stays_where_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    opened = [twiceshy.Guard("guarded", {"a": 1}, keys=["a"]), twiceshy.open("stored")]
    monkeypatch.chdir("elsewhere")
    for each in opened:
        each.close()
    assert (tmp_path / "guarded" / "filter.snapshot").exists()
    assert (tmp_path / "stored" / "filter.snapshot").exists()
