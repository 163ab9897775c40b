"""A real MinIO: an object store that enforces session policies."""

import os
import subprocess

import boto3
from botocore.config import Config
from processes import Process
from web import free_port, request

USER, PASSWORD = "slateberg", "a-long-word-for-tests"
BUCKET = "lake"


class Minio:
    """A MinIO on the loopback with one or several buckets."""

    def __init__(self, directory, buckets=(BUCKET,)):
        port, console = free_port(), free_port()
        self.uri = f"http://127.0.0.1:{port}"
        command = [os.environ["MINIO_BIN"], "server", "--address", f"127.0.0.1:{port}"]
        command += ["--console-address", f"127.0.0.1:{console}", str(directory / "files")]
        environment = {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off"}
        environment |= {"MINIO_CI_CD": "1"}
        self._process = Process(command, directory / "minio.log", environment)
        self._process.wait_until(self._is_ready, 60)
        for bucket in buckets:
            self.client().create_bucket(Bucket=bucket)

    def _is_ready(self):
        try:
            return request("GET", f"{self.uri}/minio/health/ready").status == 200
        except OSError:
            return False

    def client(self, config=None):
        """A client of the store, with the credentials of a table's configuration or with all
        privileges."""
        own = {"s3.access-key-id": USER, "s3.secret-access-key": PASSWORD}
        config = config or own
        return boto3.client(
            "s3",
            endpoint_url=self.uri,
            region_name="us-east-1",
            aws_access_key_id=config["s3.access-key-id"],
            aws_secret_access_key=config["s3.secret-access-key"],
            aws_session_token=config.get("s3.session-token"),
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def keys(self, prefix="", bucket=BUCKET):
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def stop(self):
        self._process.stop()
