"""New certificates while the process has no file descriptor left, as under a flood of connections: the node goes on with the old ones."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorum_node.server.transport.tls_files import read_files
from support.tls_folder import look_again, tls_files
from support.tls_quorum import certificate_of, new_authority, write_folder

CA = new_authority()


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Nothing can be opened. What is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_renewal_without_a_file_descriptor_is_a_problem_that_passes(tmp_path: Path) -> None:
    old, new, stolen, other = (certificate_of("member", 1, CA) for _ in range(4))
    files = tls_files(tmp_path, old, CA.certificate, revoked=stolen.certificate)
    write_folder(tmp_path, new, CA.certificate)
    serials = f"{stolen.certificate.serial_number:x}\n{other.certificate.serial_number:x}\n"
    (tmp_path / "revoked").write_text(serials)
    contents = read_files(files.paths)
    with no_descriptor():
        prepared = files.prepare(contents)
    assert files.take(prepared), "open connections have to be checked again"
    assert files.material.pair.leaf == old.certificate
    assert "Too many open files" in str(files.problem)
    assert files.material.revoked.holds(other.certificate), "which needs no descriptor"
    with no_descriptor():
        prepared = files.prepare(contents)
    assert not files.take(prepared), "nothing is new"
    assert look_again(files)
    assert files.material.pair.leaf == new.certificate
    assert files.problem is None
