"""Writes the golden records again: all of them, or those whose keys fit a pattern.

    python tests/golden/record.py                            all
    python tests/golden/record.py 'hat | *' '* | lorentz*'   some

By hand only: a change of a record is a change of what hgeo computes, and the commit that makes it says why.
"""

from __future__ import annotations

import fnmatch
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent / "records"
COMMAND = "python tests/golden/record.py"


def read(name: str) -> dict[str, dict]:
    """The records of a file."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(name: str, records: dict[str, dict]) -> None:
    """A line a record, so that a change reads as one."""
    lines = [f"{json.dumps(key)}: {json.dumps(records[key], separators=(',', ':'))}" for key in sorted(records)]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(patterns: list[str]) -> None:
    """Measure and write, and say what has changed."""
    from cases import cases, differences, measure

    matched = 0
    for name, keys in cases().items():
        old = read(name)
        records = {key: record for key, record in old.items() if key in keys}
        matched += len(old) - len(records)  # of what is no longer there the record goes, too
        for key, case in keys.items():
            if patterns and not any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns):
                continue
            matched += 1
            records[key] = measure(case)
            changes = differences(old[key], records[key]) if key in old else []
            for line in changes:
                sys.stdout.write(f"{key}: {line}\n")
            if key in old and not changes:
                records[key] = old[key]  # rounding does not touch the file
        write(name, records)
        refused = sum("refused" in record for record in records.values())
        sys.stdout.write(f"{name}: {len(records)} records, {refused} of them refused\n")
    if not matched:
        raise SystemExit(f"no key fits {' or '.join(patterns)}")


if __name__ == "__main__":
    main(sys.argv[1:])
