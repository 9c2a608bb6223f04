"""What hgeo computes is what it computed when the records were made."""

from __future__ import annotations

import pytest
import record
from cases import STREAM, cases, differences, measure

CASES = [(name, key) for name, keys in cases().items() for key in keys]
MEASURES, RECORDS = cases(), {name: record.read(name) for name in cases()}


@pytest.mark.parametrize(("name", "key"), CASES, ids=[key for _, key in CASES])
def test_numbers_are_those_that_were_recorded(name: str, key: str) -> None:
    if key not in RECORDS[name]:
        pytest.fail(f"{key!r} was never recorded; record it with: {record.COMMAND} '{key}'")
    try:
        old, new = RECORDS[name][key], measure(MEASURES[name][key])
    except ImportError as error:
        pytest.skip(str(error))
    if STREAM in old and STREAM in new and differences({STREAM: old[STREAM]}, {STREAM: new[STREAM]}):
        pytest.skip("torch draws other random numbers here than where this was recorded")
    changes = differences(old, new)
    if changes:
        listed = "\n  ".join(changes)
        pytest.fail(
            f"{key!r} is not as it was recorded:\n  {listed}\n"
            f"If that is meant, record it again and say why in the commit: {record.COMMAND} '{key}'"
        )


def test_every_record_belongs_to_something_that_is_still_there() -> None:
    stale = [key for name, records in RECORDS.items() for key in records if key not in MEASURES[name]]
    assert not stale, f"remove them with: {record.COMMAND} '{stale[0]}'"
