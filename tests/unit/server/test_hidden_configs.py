"""Secrets among the configs of brokers: the admin API returns them as little as DescribeConfigs does."""

from pathlib import Path

from support.hosted_node import running_node

SECRET = "the-password"


async def test_admin_api_does_not_return_the_values_of_secrets(tmp_path: Path) -> None:
    async with running_node(tmp_path / "data") as node, node.client() as client:
        for path in ("-/listener.name.x.ssl.key.password", "1/sasl.jaas.config"):
            put = await client.put(f"/v1/configs/broker/{path}", json={"value": SECRET})
            assert put.status_code == 200, put.text
            one = await client.get(f"/v1/configs/broker/{path}")
            assert one.status_code == 403
            assert SECRET not in one.text
        listed = await client.get("/v1/configs?prefix=broker/&consistency=linearizable")
        values = {each["name"]: each["value"] for each in listed.json()["entries"]}
        assert values["listener.name.x.ssl.key.password"] is None
        assert values["sasl.jaas.config"] is None
        assert values["min.insync.replicas"] == "1"
        assert SECRET not in listed.text


async def test_admin_api_returns_other_values(tmp_path: Path) -> None:
    async with running_node(tmp_path / "data") as node, node.client() as client:
        for path in ("broker/-/log.retention.ms", "topic/t/a.password"):
            put = await client.put(f"/v1/configs/{path}", json={"value": "5"})
            assert put.status_code == 200, put.text
            assert (await client.get(f"/v1/configs/{path}")).json()["value"] == "5"
