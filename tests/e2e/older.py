"""Downgrades a store in a bucket to an older format: `older.py STATE_URL [FORMAT]`. Prints its
previous format.

Removes the data that a slateberg of that format does not write, like tests/api/upgrade.rs, with
SlateDB's Python binding. The store must not be open. AWS_* configure the access to the bucket.
"""

import asyncio
import json
import sys

from slatedb.uniffi import DbBuilder, KeyRange, ObjectStore

# Key prefixes (docs/storage-layout.md).
STORE, TABULARS, PLACES, UUIDS = b"\x01", b"\x32", b"\x35", b"\x36"
# Formats that introduced the last two of them.
FORMAT_WITH_PLACES, FORMAT_WITH_UUIDS = 4, 5
ALL = KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)


async def entries(db, prefix):
    scan = await db.scan_prefix(prefix, ALL)
    found = []
    while (entry := await scan.next()) is not None:
        found.append((bytes(entry.key), bytes(entry.value)))
    return found


def changed(value, change):
    """Modifies a record. The byte in front of its JSON is the encoding."""
    record = json.loads(value[1:])
    change(record)
    return value[:1] + json.dumps(record).encode()


async def set_back(db, to):
    later = [UUIDS] if to < FORMAT_WITH_UUIDS else []
    if to < FORMAT_WITH_PLACES:
        later.append(PLACES)
        for key, value in await entries(db, TABULARS):
            await db.put(key, changed(value, lambda record: record.pop("further_paths", None)))
    for space in later:
        found = await entries(db, space)
        assert found, f"there are keys of space {space.hex()}"
        for key, _ in found:
            await db.delete(key)
    store = await db.get(STORE)
    await db.put(STORE, changed(store, lambda record: record.update(format_version=to)))


async def main(url, to=None):
    bucket, _, path = url.removeprefix("s3://").partition("/")
    db = await DbBuilder(path, ObjectStore.resolve(f"s3://{bucket}")).build()
    try:
        print(json.loads((await db.get(STORE))[1:])["format_version"])
        if to is not None:
            await set_back(db, int(to))
    finally:
        await db.shutdown()


asyncio.run(main(*sys.argv[1:]))
