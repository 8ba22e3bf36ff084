"""What an object store answers, in one line with a remedy."""

import pytest
from botocore.exceptions import ClientError

from quorum_node.backups.object_errors import ObjectStoreError, store_errors


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("RequestTimeTooSkewed", "correct the clock of this host"),
        ("SlowDown", "try again later"),
        ("XMinioStorageFull", "give the store more space"),
    ],
)
def test_answer_of_a_store_is_explained(code: str, advice: str) -> None:
    answer = {"Error": {"Code": code, "Message": "A\nlong one."}}
    with (
        pytest.raises(ObjectStoreError, match=rf"can't list x: .*{code}: A long one: .*{advice}$"),
        store_errors("list x", "https://s3.example.com"),
    ):
        raise ClientError(answer, "ListObjectsV2")
