"""The object store that the tests use rejects what S3 rejects: otherwise they would prove nothing."""

from collections.abc import Callable, Iterator

import pytest
from botocore.exceptions import ClientError

from support.object_store import ObjectStore

BUCKET = "bucket"
PAGE_KEYS = 5


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore(page_keys=PAGE_KEYS) as made:
        made.create_bucket(BUCKET)
        yield made


def code_of(request: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as refused:
        request()
    return str(refused.value.response["Error"]["Code"])


def test_only_the_configured_user_is_authorized(store: ObjectStore) -> None:
    store.write(BUCKET, "key", b"content")
    for reported, code in (
        ({"aws_secret_access_key": "wrong"}, "SignatureDoesNotMatch"),
        ({"aws_access_key_id": "AKIAWRONG"}, "InvalidAccessKeyId"),
    ):
        other = store.client(**reported)
        assert code_of(lambda other=other: other.get_object(Bucket=BUCKET, Key="key")) == code
        assert code_of(lambda other=other: other.delete_object(Bucket=BUCKET, Key="key")) == code
        other.close()
    assert store.read(BUCKET, "key") == b"content"


def test_conditional_write_does_not_overwrite(store: ObjectStore) -> None:
    store.s3.put_object(Bucket=BUCKET, Key="once", Body=b"1", IfNoneMatch="*")
    again = code_of(
        lambda: store.s3.put_object(Bucket=BUCKET, Key="once", Body=b"2", IfNoneMatch="*")
    )
    assert again == "PreconditionFailed"
    assert store.read(BUCKET, "once") == b"1"


def test_multipart_upload_is_visible_only_when_completed(store: ObjectStore) -> None:
    named = {"Bucket": BUCKET, "Key": "large"}
    upload_id = store.s3.create_multipart_upload(**named)["UploadId"]
    contents = (b"x" * (5 << 20), b"y")
    parts = [
        {
            "PartNumber": number,
            "ETag": store.s3.upload_part(**named, UploadId=upload_id, PartNumber=number, Body=part)[
                "ETag"
            ],
        }
        for number, part in enumerate(contents, 1)
    ]
    assert store.unfinished_uploads(BUCKET) == ["large"]
    assert "large" not in store.keys(BUCKET)
    store.s3.complete_multipart_upload(
        **named, UploadId=upload_id, MultipartUpload={"Parts": parts}
    )
    assert store.read(BUCKET, "large") == b"".join(contents)
    assert store.unfinished_uploads(BUCKET) == []


def test_listing_is_paged(store: ObjectStore) -> None:
    for number in range(PAGE_KEYS + 1):
        store.write(BUCKET, f"many/{number}", b"")
    page = store.s3.list_objects_v2(Bucket=BUCKET, Prefix="many/")
    assert (len(page["Contents"]), page["IsTruncated"]) == (PAGE_KEYS, True)
    assert len(store.keys(BUCKET, "many/")) == PAGE_KEYS + 1
