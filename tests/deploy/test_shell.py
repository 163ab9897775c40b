"""The shell files of the repository."""

import subprocess

from conftest import ROOT, checked


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
