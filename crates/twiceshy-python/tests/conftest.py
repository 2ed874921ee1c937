"""What the tests share."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def cli() -> str:
    """The command line, which scripts/python.sh has built."""
    return os.environ["TWICESHY_CLI"]


@pytest.fixture(scope="session")
def other_python() -> str:
    """Another version of Python with the same wheel, if scripts/python.sh has found one."""
    if "TWICESHY_OTHER_PYTHON" not in os.environ:
        pytest.skip("there is one version of Python here")
    return os.environ["TWICESHY_OTHER_PYTHON"]


@pytest.fixture
def in_python(tmp_path: pathlib.Path):
    """Runs a program in another process, by default of this version of Python."""

    def run(program: str, *args: object, python: str = sys.executable) -> str:
        command = [python, "-c", program, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
