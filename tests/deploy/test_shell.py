"""Shell files, the Dockerfile, and the commands of CI."""

import re
import subprocess
import sys
from pathlib import Path

import yaml
from conftest import ROOT, checked

MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def shell_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        file = ROOT / name
        if file.is_file() and file.read_bytes()[:32].startswith((b"#!/usr/bin/env bash", b"#!/bin/sh", b"#!/bin/bash")):
            yield file


def test_shellcheck_has_nothing_to_say():
    files = list(shell_files())
    assert files
    checked("shellcheck", *files)


def test_hadolint_has_nothing_to_say():
    checked(Path(sys.executable).parent / "hadolint", *sorted((ROOT / "container").glob("*Dockerfile")))


def test_ci_calls_targets_that_there_are():
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    called = [name for step in steps for name in re.findall(r"\bmake ([a-z0-9-]+)", step.get("run", ""))]
    assert "test" in called
    assert set(called) <= targets


def test_every_target_is_phony():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    assert targets == set(phony.split())
