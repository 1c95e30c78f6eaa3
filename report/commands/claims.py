"""``--claims RECORD``: the claims about a machine that one record decides by itself."""

from __future__ import annotations

import importlib
from argparse import Namespace
from pathlib import Path

from report.commands.arguments import named_records, request_of
from report.core.records.store import read_record
from report.engine.gather import choose
from report.instruments.judgement import checked
from report.studies import module_of


def decide(options: Namespace) -> int:
    """Print how many claims a record decides, and each with its verdict; return the exit code."""
    request = request_of(options)
    files = named_records([options.claims], request.studies, request.data, Path.cwd())
    for study, (file,) in files.items():
        stored = checked(read_record(request.data / file, request.data))
        inputs = choose(study, request.data).inputs
        findings = importlib.import_module(module_of(study)).study.evaluate(inputs, stored)
        claims = findings.claims.values()
        decided = [claim for claim in claims if claim.verdict in ("supported", "refuted")]
        about = "a GPU" if stored.record.environment.gpu else "a CPU"
        print(f"Decides {len(decided)} of {len(claims)} claims about {about} by itself:")
        for claim in claims:
            print(f"  {claim.verdict:<14} {claim.title}")
    return 0
