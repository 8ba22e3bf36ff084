"""Codecs are compiled after the start, one in a turn of the loop, those of a handover first."""

import subprocess
import sys

PROGRAM = """
import asyncio, time
from quorum_node.protocol.apis import APIS, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, VOTE
from quorum_node.records.metadata import RECORDS_BY_TYPE, ConfigRecord
from quorum_node.schema import decoder, encoder
from quorum_node.server.process.codec_warmup import CodecWarmup

def decoders(limits_strings):
    return {(cls, version) for cls, version, _, limits in decoder._COMPILED if limits == limits_strings}

def encoders():
    return {(cls, version) for cls, version, _ in encoder._COMPILED}

def compiled():
    return decoders(limits_strings=True) & encoders()

def missing(apis):
    wanted = {(message, api.max_version) for api in apis for message in (api.request, api.response)}
    return sorted(f"{cls.__name__} {version}" for cls, version in wanted - compiled())

def missing_records(classes):
    wanted = {(cls, version) for cls in classes for version in range(cls.HIGHEST_VERSION + 1)}
    both = [decoders(limits_strings=False), encoders()]
    return sorted(f"{cls.__name__} {version}" for made in both for cls, version in wanted - made)

async def main():
    handover = (END_QUORUM_EPOCH, VOTE, BEGIN_QUORUM_EPOCH, FETCH)
    assert len(missing(handover)) == 8, missing(handover)
    ahead = CodecWarmup()
    ahead.start(0)
    turns = 0
    while missing(handover) or missing_records([ConfigRecord]):
        assert not ahead.is_done, missing_records([ConfigRecord])
        await asyncio.sleep(0)
        turns += 1
    assert len(missing(APIS.values())) > 50, "the others come later"
    assert turns > 16, "more than one codec in a turn"
    # A loop that is always busy puts the next one off, but not for ever.
    def count():
        return len(decoder._COMPILED) + len(encoder._COMPILED)

    before, begun = count(), time.monotonic()
    while count() == before:
        time.sleep(0.004)
        await asyncio.sleep(0)
        assert time.monotonic() < begun + 60, "put off for ever"
    while not ahead.is_done:
        await asyncio.sleep(0.01)
    assert missing(APIS.values()) == []
    assert missing_records(RECORDS_BY_TYPE.values()) == []
    ahead.stop()

asyncio.run(main())
"""


def test_every_codec_is_compiled_and_those_for_leader_changes_first() -> None:
    """In a process of its own, because other tests may have compiled the functions."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
