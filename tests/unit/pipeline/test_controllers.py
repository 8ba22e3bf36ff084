"""How a running quorum is reached: what is typed goes to executors as text, and files that can't be used are named at once."""

import pickle
from argparse import ArgumentParser
from pathlib import Path

import pytest

from quorum_pipeline.commands import archive
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.controllers import Controllers, controllers_of
from quorum_pipeline.spark.options import log_options
from support.tls_quorum import certificate_of, new_authority, write_folder

AT = "controller-0:9093,[::1]:9093"


def folder_of_an_archiver(root: Path) -> Path:
    ca = new_authority()
    write_folder(root / "tls", certificate_of("archiver", None, ca), ca.certificate)
    return root / "tls"


def command_config(root: Path) -> Path:
    folder = folder_of_an_archiver(root)
    file = root / "client.properties"
    stores = (
        f"ssl.keystore.location={folder}/keystore.pem\nssl.truststore.location={folder}/ca.crt\n"
    )
    file.write_text(f"security.protocol=SSL\n{stores}")
    return file


def test_task_contains_text_and_reads_the_files_where_it_runs(tmp_path: Path) -> None:
    folder, config = folder_of_an_archiver(tmp_path), command_config(tmp_path)
    for made in (
        controllers_of(AT),
        controllers_of(AT, tls=str(folder)),
        controllers_of(AT, command_config=str(config)),
        controllers_of(AT, replicas="observer-0:8080,[::1]:8443"),
        controllers_of(AT, replicas="none"),
    ):
        carried: Controllers = pickle.loads(pickle.dumps(made))
        assert carried == made
        assert log_options(made.options()).controllers == made
        carried.open().close()
    assert b"PRIVATE KEY" not in pickle.dumps(controllers_of(AT, tls=str(folder)))


def test_unusable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"ca\.crt, the file of the trusted authorities, is missing"
    ):
        controllers_of(AT, tls=str(tmp_path)).open()
    folder = folder_of_an_archiver(tmp_path)
    (folder / "tls.key").write_text("no key")
    with pytest.raises(
        PipelineError, match=r"tls\.crt: no certificate and private key can be read"
    ):
        controllers_of(AT, tls=str(folder)).open()
    with pytest.raises(PipelineError, match="can't be combined"):
        controllers_of(AT, str(folder), str(tmp_path / "x")).open()


def test_directory_needs_no_certificate(tmp_path: Path) -> None:
    parser = ArgumentParser()
    archive.add_arguments(parser)
    parsed = parser.parse_args(["--log", str(tmp_path), "--to", "x", "--tls", "y"])
    with pytest.raises(PipelineError, match="apply only to --bootstrap"):
        archive.run(parsed)
