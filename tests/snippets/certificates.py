"""The certificates that a page's settings and commands name, by a CA of the tests' own: by `openssl`, as operators do it."""

import shutil
import subprocess

EXTENSIONS = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
subjectAltName = IP:127.0.0.1
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
"""
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-config", "openssl.cnf"]


def issue(directory, of_server):
    """Makes `ca.pem` and `ops.pem` for commands in the directory, and what the server has in a directory of its own."""
    of_server.mkdir()

    def openssl(*words):
        done = subprocess.run(["openssl", *words], cwd=of_server, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def sign(name, kind):
        openssl("req", "-new", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        by = ["-CA", "clients.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-out", f"{name}.crt"]
        openssl("x509", "-req", "-in", f"{name}.csr", *by, "-extfile", "openssl.cnf", "-extensions", kind)

    (of_server / "openssl.cnf").write_text(EXTENSIONS)
    made = ["-keyout", "ca.key", "-out", "clients.pem", "-days", "2", "-subj", "/CN=Test CA"]
    openssl("req", "-x509", *NEW_KEY, "-extensions", "authority", *made)
    sign("tls", "server")
    sign("ops.example.com", "client")
    shutil.copy(of_server / "clients.pem", directory / "ca.pem")
    both = [(of_server / f"ops.example.com.{part}").read_text() for part in ("crt", "key")]
    (directory / "ops.pem").write_text("".join(both))
