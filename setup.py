"""The packages of the distribution, found in the tree. Everything else is in setup.cfg and
pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["noetl", "noetl.*"]),
        # setup.cfg's `package_dir` installs them as `noetl.migrations`: `find:` alone would not see
        # them.
        *(f"noetl.{name}" for name in find_packages(include=["migrations", "migrations.*"])),
    ],
)
